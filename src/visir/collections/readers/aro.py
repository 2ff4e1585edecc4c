"""ARO: relations and attributes of Visual Genome, and captions whose words are in another order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visir.collections.choice_draft import ChoiceDraft, Missing
from visir.collections.readers.choice_table import MISSING, has_columns, record_files, records, texts_of
from visir.collections.readers.sniffing import plain_stem
from visir.collections.sources import Format, Option, one_of

_CAPTIONS = ("true_caption", "false_caption")
_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_HARD = tuple(f"hard_text_{number}" for number in (1, 2, 3, 4))


def read(path: Path, *, crop: str = "yes", missing: Missing = "drop") -> ChoiceDraft:
    """Read `visual_genome_relation.json` and `visual_genome_attribution.json`, and files of order."""
    # Of a picture of Visual Genome only the box of the item is shown to the model, as in the paper. A file of order has
    # `image`, `correct_caption` and `hard_text_1` to `hard_text_4` in each record. The paper's code makes these
    # captions at random when it runs; `visir.robustness.perturb.order_choices` makes such a task of any
    # collection.
    # The label "category" is the name of the file; "relation" and "attributes" are what an item is about.
    files = record_files(path, _fits)
    if not files:
        raise FORMAT.lacks(path, "no visual_genome_relation.json or visual_genome_attribution.json")
    root = path if path.is_dir() else path.parent
    draft = ChoiceDraft("ARO", root, f"ARO {path.absolute().name}", missing=missing,
                        obtain="vgr_vga_images.zip, which ARO's own code downloads")  # fmt: skip
    for file in files:
        for number, (_, row) in enumerate(records(file)):
            _add(draft, f"{file.name}, item {number}", f"{plain_stem(file)}/{number}", row, crop == "yes")
    return draft


def _add(draft: ChoiceDraft, place: str, identifier: str, row: Mapping[str, Any], crop: bool) -> None:
    is_order = "correct_caption" in row
    captions = ("correct_caption", *_HARD) if is_order else _CAPTIONS
    picture = "image" if is_order else "image_path"
    texts = texts_of(draft, place, row, (picture, *captions))
    if texts is None:
        return
    labels: dict[str, str | None] = {"category": identifier.rpartition("/")[0]}
    if "relation_name" in row:
        labels["relation"] = str(row["relation_name"])
    if isinstance(row.get("attributes"), list):
        labels["attributes"] = "_".join(map(str, row["attributes"]))
    box = None
    if not is_order and crop:
        values = [row.get(name) for name in _BOX]
        if not all(isinstance(value, (int, float)) for value in values):
            draft.fault(f"{place}: no box ({', '.join(_BOX)}); ?crop=no shows the whole picture")
            return
        left, top, width, height = (round(float(value)) for value in values)  # type: ignore[arg-type]
        box = (left, top, width, height)
    draft.add(identifier, {"": texts.pop(picture)}, texts, [[0]], labels, crop=box)


def _fits(file: Path) -> bool:
    return has_columns(file, "image_path", *_CAPTIONS) or has_columns(file, "image", "correct_caption", *_HARD)


FORMAT = Format(
    name="aro",
    title="ARO: relations, attributes and order of words",
    layout="visual_genome_relation.json and visual_genome_attribution.json with images/; or records of {image, "
    "correct_caption, hard_text_1 … hard_text_4}",
    reference="Yuksekgonul et al., ARO (ICLR 2023)",
    obtain="https://github.com/mertyg/vision-language-models-are-bows",
    sniff=lambda path: bool(record_files(path, _fits)),
    read=read,
    options=(
        Option("crop", "cut pictures of Visual Genome to the box of the item: yes or no", "yes", one_of("yes", "no")),
        MISSING,
    ),
)
