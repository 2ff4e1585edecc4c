"""DOCCI: photos with one long description each."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import compare_counts
from visir.collections.readers.rows import RowFault, json_lines
from visir.collections.readers.sniffing import has_key, head
from visir.collections.sources import Format

NAMES = ("docci_descriptions.jsonlines", "docci_descriptions.jsonl")
PUBLISHED = {"images of train": 9_647, "images of test": 5_000}


def read(path: Path) -> Draft:
    """Read `docci_descriptions.jsonlines`: `{example_id, split, image_file, description}` in every line."""
    # Ids are the `example_id`s. The splits are "train", "test", "qual_dev" and "qual_test"; the two sets for
    # qualitative work (100 images each) are no part of train and test.
    file = path if path.is_file() else next((path / name for name in NAMES if (path / name).is_file()), None)
    if file is None:
        raise FORMAT.lacks(path, f"no {NAMES[0]} in it")
    draft = Draft("DOCCI", file.parent, f"DOCCI {file.name}")

    def report(fault: RowFault, place: str, detail: str) -> None:
        draft.fault(f"{file.name}, {place}: {fault.message.format(detail)}")

    for place, row in json_lines(file, report):
        missing = [name for name in ("example_id", "image_file", "description") if not isinstance(row.get(name), str)]
        if missing:
            draft.fault(f"{file.name}, {place}: no {', '.join(missing)}")
            continue
        identifier, own = row["example_id"], str(row.get("split") or "")
        prefix = identifier.rpartition("_")[0]
        draft.add_image(identifier, row["image_file"], prefix if prefix.startswith("qual_") else own)
        draft.add_caption(f"{identifier}#0", row["description"], identifier)
    counts = {f"images of {split}": draft.splits.count(split) for split in ("train", "test")}
    compare_counts(draft, PUBLISHED, counts)
    return draft


def _sniff(path: Path) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in NAMES)
    return has_key(head(path).split(b"\n", 1)[0], "example_id", "image_file", "description")


FORMAT = Format(
    name="docci",
    title="DOCCI (long descriptions)",
    layout="docci_descriptions.jsonlines: {example_id, split, image_file, description} per line; the photos of "
    "docci_images.tar.gz, unpacked beside it",
    reference="Onoe et al., DOCCI: Descriptions of Connected and Contrasting Images (ECCV 2024)",
    obtain="https://storage.googleapis.com/docci/data/docci_descriptions.jsonlines and docci_images.tar.gz from the "
    "same place",
    sniff=_sniff,
    read=read,
)
