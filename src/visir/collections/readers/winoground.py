"""Winoground and EqBen: two pictures and two captions of the same words; each picture has one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from visir.collections.cells import pictures_in_cells
from visir.collections.choice_draft import ChoiceDraft, Missing
from visir.collections.readers.choice_table import MISSING, has_columns, record_files, records, texts_of
from visir.collections.readers.locate import relative
from visir.collections.readers.sniffing import head, plain_name, plain_stem
from visir.collections.segments import FRAME
from visir.collections.sources import Format

MEASURES = ("all_first", "item_score", "group_score")
"""Accuracy of single choices; both choices of a direction (text score, image score); all four (group score)."""
_CAPTIONS = ("caption_0", "caption_1")
_PICTURES = ("image_0", "image_1")
_SHORT = ("caption0", "caption1", "image0", "image1")


def read(path: Path, *, missing: Missing = "drop") -> ChoiceDraft:
    """Read `examples.jsonl` with a folder or a zip `images`, or the Parquet files of the hub with pictures in cells."""
    # The label "category" is the collapsed tag ("Object", "Relation", "Both"); "tag", "secondary_tag" and
    # "num_main_preds" are those of the files.
    files = record_files(path, lambda file: has_columns(file, *_CAPTIONS, *_PICTURES))
    if not files:
        raise FORMAT.lacks(path, "no examples.jsonl, or Parquet file with image_0, image_1, caption_0 and caption_1")
    draft = _draft("Winoground", path, missing, "its pictures come with it, under a licence of their own")
    for file, cells, identifier, row in _rows(files):
        place = f"{file.name}, item {identifier}"
        texts = texts_of(draft, place, row, _CAPTIONS if cells else (*_PICTURES, *_CAPTIONS))
        if texts is not None:
            labels = {"category": _label(row, "collapsed_tag")}
            labels |= {name: _label(row, name) for name in ("tag", "secondary_tag", "num_main_preds")}
            pictures = {name: None if cells else _file_name(texts[name]) for name in _PICTURES}
            captions = {name: texts[name] for name in _CAPTIONS}
            places = [(f"{column}#{row['row']}", relative(file, draft.root)) for column in cells]
            draft.add(identifier, pictures, captions, [[0], [1]], labels, cells=places)
    return draft


def read_eqben(path: Path, *, missing: Missing = "drop") -> ChoiceDraft:
    """Read EqBen: a list of `{"image0", "image1", "caption0", "caption1"}`."""
    # The label "category" is the part of the benchmark: the first folder of the pictures ("eqbenag", "eqbensd", …).
    # Pictures whose names end in ".npy" (YouCook2) are arrays as OpenCV holds them, blue first, as in the evaluation
    # code of the benchmark.
    files = record_files(path, lambda file: has_columns(file, *_SHORT))
    if not files:
        single = record_files(path, _has_single_pairs)
        raise FORMAT_EQBEN.lacks(
            path,
            f"{single[0].name} has single pairs in random order, without their items; take the annotations with "
            "image0, image1, caption0 and caption1"
            if single
            else "no file with image0, image1, caption0 and caption1",
        )
    draft = _draft("EqBen", path, missing, "the pictures come in an archive of their own")
    for file in files:
        for identifier, row in records(file):
            texts = texts_of(draft, f"{file.name}, item {identifier}", row, _SHORT)
            if texts is None:
                continue
            frames = [texts[name].endswith(".npy") for name in _SHORT[2:]]
            if any(frames) and not all(frames):
                draft.fault(f"{file.name}, item {identifier}: one picture is a NumPy file, and the other is not")
                continue
            pictures = {f"image_{side}": texts[f"image{side}"] for side in (0, 1)}
            captions = {f"caption_{side}": texts[f"caption{side}"] for side in (0, 1)}
            category = texts["image0"].partition("/")[0] if "/" in texts["image0"] else None
            item = f"{plain_stem(file)}/{identifier}" if len(files) > 1 else identifier
            fragment = FRAME if all(frames) else ""
            draft.add(item, pictures, captions, [[0], [1]], {"category": category}, fragment=fragment)
    return draft


def _draft(title: str, path: Path, missing: Missing, obtain: str) -> ChoiceDraft:
    root = path if path.is_dir() else path.parent
    return ChoiceDraft(title, root, f"{title} {path.absolute().name}", measures=MEASURES, missing=missing,
                       obtain=obtain)  # fmt: skip


def _rows(files: list[Path]) -> Iterator[tuple[Path, list[str], str, Mapping[str, Any]]]:
    """Each record with its file, the columns of pictures in cells, and its id."""
    for file in files:
        held = pictures_in_cells(file)
        cells = list(_PICTURES) if set(_PICTURES) <= set(held) else []
        for number, (identifier, row) in enumerate(records(file)):
            yield file, cells, identifier, {**row, "row": number}


def _label(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) in (None, "") else str(row[name])


def _file_name(name: str) -> str:
    """The file of a picture: `examples.jsonl` leaves out the suffix, which is .png as published."""
    return name if Path(name).suffix else f"{name}.*"


def _has_single_pairs(file: Path) -> bool:
    """Whether a file is the list of the challenge: `{"image", "caption"}`, pictures by the parts of EqBen."""
    return has_columns(file, "image", "caption") and b'"eqben' in head(file)


def _sniff(path: Path) -> bool:
    return bool(record_files(path, lambda file: has_columns(file, *_CAPTIONS, *_PICTURES)))


FORMAT = Format(
    name="winoground",
    title="Winoground: match two pictures with two captions of the same words",
    layout="examples.jsonl (id, image_0, image_1, caption_0, caption_1, tag, …) with images/ or images.zip; or "
    "data/test-*.parquet of the hub",
    reference="Thrush et al., Winoground (CVPR 2022)",
    obtain="https://huggingface.co/datasets/facebook/winoground",
    sniff=_sniff,
    read=read,
    options=(MISSING,),
)
FORMAT_EQBEN = Format(
    name="eqben",
    title="EqBen: match two almost equal pictures with two captions",
    layout="a JSON list of {image0, image1, caption0, caption1}, with the folder of pictures: eqbenag/, eqbengebc/, … "
    "and eqbenyoucook2/ with arrays (.npy: height × width × 3 bytes, blue first)",
    reference="Wang et al., EqBen (ICCV 2023)",
    obtain="https://github.com/Wangt-CN/EqBen, section Data Download: eqben_subset_10percent_final.json and "
    "subset_image.tar.gz (unpack it)",
    sniff=lambda path: bool(
        record_files(path, lambda file: not plain_name(file).endswith(".parquet") and has_columns(file, *_SHORT))
    ),
    read=read_eqben,
    options=(MISSING,),
)
