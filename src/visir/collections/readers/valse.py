"""VALSE: captions and foils for linguistic phenomena, with the votes of three people."""

from __future__ import annotations

from pathlib import Path

from visir.collections.choice_draft import ChoiceDraft, Missing
from visir.collections.readers.choice_table import MISSING, has_columns, record_files, records, texts_of
from visir.collections.readers.sniffing import plain_stem
from visir.collections.sources import Format, Option

VOTES = 2
"""The paper counts items of which at least two of three people chose the caption, and not the foil."""
_COLUMNS = ("image_file", "caption", "foil", "linguistic_phenomena")


def read(path: Path, *, votes: int = VOTES, missing: Missing = "drop") -> ChoiceDraft:
    """Read the pieces `existence.json`, `plurals.json`, …: `{id: {"image_file", "caption", "foil", "mturk"}}`."""
    # The label "category" is the name of the piece, "phenomenon" what it is about, "source" whose picture it is.
    files = record_files(path, lambda file: has_columns(file, *_COLUMNS))
    if not files:
        raise FORMAT.lacks(path, "no file with image_file, caption, foil and linguistic_phenomena")
    root = path if path.is_dir() else path.parent
    draft = ChoiceDraft("VALSE", root, f"VALSE {path.absolute().name}", missing=missing,
                        obtain="the pictures are those of COCO, SWiG, VisDial 1.0 and Visual7W")  # fmt: skip
    total = refused = 0
    for file in files:
        category = plain_stem(file)
        for identifier, row in records(file):
            place = f"{file.name}, item {identifier}"
            total += 1
            accepted = (row.get("mturk") or {}).get("caption")
            if votes and not isinstance(accepted, int):
                draft.fault(f"{place}: no votes ('mturk'); ?votes=0 takes every item")
                continue
            if isinstance(accepted, int) and accepted < votes:
                refused += 1
                continue
            texts = texts_of(draft, place, row, ("image_file", "caption", "foil"))
            if texts is not None:
                labels = {"category": category, "phenomenon": _text(row["linguistic_phenomena"]),
                          "source": _text(row.get("dataset"))}  # fmt: skip
                draft.add(f"{category}/{identifier}", {"": texts.pop("image_file")}, texts, [[0]], labels)
    if refused:
        draft.remark(f"{refused:,} of {total:,} items not counted: fewer than {votes} of three people accept them")
    return draft


def _text(value: object) -> str | None:
    return None if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _votes(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError(text)
    return int(text)


FORMAT = Format(
    name="valse",
    title="VALSE: choose between a caption and a foil",
    layout="existence.json, plurals.json, counting-hard.json, … in one folder: {id: {image_file, caption, foil, mturk, "
    "linguistic_phenomena, dataset}}",
    reference="Parcalabescu et al., VALSE (ACL 2022)",
    obtain="https://github.com/Heidelberg-NLP/VALSE",
    sniff=lambda path: bool(record_files(path, lambda file: has_columns(file, *_COLUMNS))),
    read=read,
    options=(
        Option("votes", "how many of three people must have accepted an item (0: all items)", VOTES, _votes),
        MISSING,
    ),
)
