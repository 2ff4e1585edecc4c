"""A table of choices of one's own: in every row a picture, its caption, and one or several wrong captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from visir.collections.archives import PictureCells
from visir.collections.cells import id_of, is_missing, says_nothing
from visir.collections.draft import ChoiceDraft, Missing
from visir.collections.held_pictures import HeldPictures, is_picture
from visir.collections.readers.locate import relative
from visir.collections.readers.names import head, plain_name, plain_stem
from visir.collections.readers.table import TableColumns
from visir.collections.sources import Format, Option, bad_rows_option, one_of
from visir.collections.tables import BadRows, OpenTable, is_table, pick, read_table, sniffed_columns
from visir.errors import CollectionError
from visir.records.items import GROUP, IMAGE

# What the readers of choice tasks share: files of records, checked values, categories from names of files.

MISSING = Option(
    "missing",
    "items whose pictures are not at hand: drop (counted and named in the notes) or fault",
    "drop",
    one_of("drop", "fault"),
)
_LINES = (".jsonl", ".ndjson", ".jsonlines")


def has_columns(path: Path, *names: str) -> bool:
    """Whether a file of JSON or Parquet has records with these names, as far as its beginning tells."""
    if not path.is_file():
        return False
    name = plain_name(path).lower()
    if name.endswith(".parquet"):
        try:
            return set(names) <= set(pq.read_schema(path).names)
        except Exception:
            return False
    if not name.endswith((".json", *_LINES)):
        return False
    beginning = head(path)
    return all(f'"{key}"'.encode() in beginning for key in names)


WRONG = (
    "foil",
    "foils",
    "wrong",
    "wrong_caption",
    "negative_caption",
    "false_caption",
    "incorrect_caption",
    "distractor",
)
"""What columns of wrong captions are called, also with a number behind: foil1, foil_2."""
_IDS = ("id", "item_id")
_RESERVED = {"query_id", GROUP, IMAGE}
OPTIONS = (
    Option("image", "the column of the picture's file name (default: image, file_name, …)"),
    Option("caption", "the column of the right caption, or several, comma-separated (default: caption, text, …)"),
    Option("wrong", "the column of the wrong caption, or several, comma-separated (default: foil, foil_1, wrong, …)"),
    Option("id", "the column of the item's id (default: id; else the number of the row)"),
)


@dataclass(frozen=True)
class ChoiceColumns:
    """Which column holds what."""

    image: tuple[str, ...]  # the picture; of several, each has the right caption at its place
    right: tuple[str, ...]  # the right captions
    wrong: tuple[str, ...]  # the wrong captions
    id: str | None  # the ids of the items; None for their numbers
    labels: tuple[str, ...]  # what is known of the items: every other column

    @classmethod
    def find(
        cls,
        table: OpenTable,
        *,
        image: str | None = None,
        caption: str | None = None,
        wrong: str | None = None,
        id: str | None = None,
    ) -> ChoiceColumns:
        """Find them by the names that somebody gave and the usual ones; raises `CollectionError` without one."""
        names = table.columns
        foils = wrong_columns(names) if wrong is None else tuple(
            str(pick(table, {"wrong": name.strip()}, wrong=())["wrong"]) for name in wrong.split(",")
        )  # fmt: skip
        rest = OpenTable(table.name, [name for name in names if name not in foils])
        usual = TableColumns.find(rest, {"image": image, "caption": caption})
        picture = usual.image or usual.image_id
        lacking = {"image": not picture, "caption": not usual.captions, "wrong": not foils}
        absent = [name for name, missing in lacking.items() if missing]
        if picture is None or absent:
            raise CollectionError(
                f"{table.name}: no column for {' and '.join(absent)}.",
                hint=f"{', '.join(f'{name}=COLUMN' for name in absent)}; there are: {', '.join(names)}",
                code="collection-no-column",
            )
        own = pick(rest, {"id": id}, id=_IDS)["id"]
        used = {picture, *usual.captions, own}
        return cls((picture,), usual.captions, foils, own, tuple(name for name in rest.columns if name not in used))


def wrong_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that are called like wrong captions."""
    return tuple(name for name in columns if name.lower().rstrip("0123456789").rstrip("_- ") in WRONG)


def read(
    source: Any,
    *,
    image: str | None = None,
    caption: str | None = None,
    wrong: str | None = None,
    id: str | None = None,
    missing: Missing = "drop",
    bad_rows: str = "refuse",
    name: str = "",
) -> ChoiceDraft:
    """Read a table with a row for each choice. Every further column is a label of the item: "category", …"""
    # source: A file, or a table in memory, where a picture is a file, a picture of PIL, an array, or encoded bytes.
    path = source if isinstance(source, Path) else None
    if path is not None and not is_table(path):
        raise CollectionError(f"{path}: no table of choices.", hint=f"{FORMAT.layout}")
    table = read_table(source)
    columns = ChoiceColumns.find(table, image=image, caption=caption, wrong=wrong, id=id)
    where = (name or "table", Path.cwd(), "choices in memory") if path is None else (
        plain_stem(path), path.parent, f"choices {path.name}")  # fmt: skip
    draft = ChoiceDraft(*where, missing=missing)
    bad = BadRows(table.name if path is None else path.name, draft.fault, bad_rows)
    picture, held = columns.image[0], HeldPictures()
    cells, others = (PictureCells.of(path, picture, relative(path, draft.root)) if path else None) or (None, None)
    rows = list(table.rows(bad.row, others))
    numbers = [held.add(row[picture], place) if is_picture(row.get(picture)) else None for place, row in rows]
    archive = str(held.write()) if len(held) else ""
    for number, (place, row) in enumerate(rows):
        in_memory = None if numbers[number] is None else (f"image#{numbers[number]}", archive)
        row["cells"] = list(filter(None, [cells(number) if cells else in_memory]))
        own = row.get(columns.id) if columns.id else None
        add_choice(draft, columns, str(number) if is_missing(own) else id_of(own), place, row, bad=bad)
    for note in bad.notes():
        draft.remark(note)
    return draft


def add_choice(
    draft: ChoiceDraft,
    columns: ChoiceColumns,
    own: str,
    place: str,
    row: Mapping[str, Any],
    *,
    every: bool = False,
    bad: BadRows | None = None,
) -> None:
    """Add the item of a row, wherever the row comes from."""
    # A row may also say "cells", where its pictures are known to be as (path, archive); "crop", the part of the picture
    # that counts; and "fragment", what stands behind its path. every: Whether each of the wrong captions must be there.
    # bad: Takes rows that lack something, in tables of one's own, where a word such as "NA" is no caption.

    def lacks(what: str) -> None:
        if bad is None:
            draft.fault(f"{place}: {what}")
        else:
            bad.reject("rows that lack something", place, what, f"{place}: {what}")

    cells = row.get("cells") or ()
    pictures = {"" if len(columns.image) == 1 else name: None if cells else row.get(name) for name in columns.image}
    if not cells and not all(isinstance(picture, (str, Path)) and picture for picture in pictures.values()):
        lacks(f"no picture ({', '.join(columns.image)} is empty)")
        return
    captions = {}
    for name in (*columns.right, *columns.wrong):
        text = row.get(name)
        if bad is not None and says_nothing(text):
            text = None
        if isinstance(text, str) and text.strip():
            captions[name] = text
        elif every or text not in (None, "") or name in columns.right:
            problem = "there is none" if text in (None, "") else f"found {str(text)[:40]!r}"
            lacks(f"{name!r} must be a text; {problem}")
            return
    if len(pictures) == 1 and len(captions) == len(columns.right):
        lacks(f"no wrong caption ({', '.join(columns.wrong)})")
        return
    right = [range(len(columns.right))] if len(pictures) == 1 else [[at] for at in range(len(pictures))]
    labels = {name: label_text(row.get(name)) for name in columns.labels if name in row and name not in _RESERVED}
    names = {name: None if picture is None else str(picture) for name, picture in pictures.items()}
    draft.add(own, names, captions, right, labels, cells=cells, crop=row.get("crop"), fragment=row.get("fragment", ""))


def label_text(value: object) -> str | None:
    """What a label says; None for nothing."""
    return None if value in (None, "") else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def has_choices(columns: Sequence[str]) -> bool:
    """Whether columns have the usual names of a picture, a caption, and a wrong caption."""
    try:
        ChoiceColumns.find(OpenTable("", list(columns)))
    except CollectionError:
        return False
    return True


FORMAT = Format(
    name="choices",
    title="table of your own choices: a right and wrong captions",
    layout="CSV, TSV, JSON lines or Parquet with the columns image, caption and foil (or foil_1, foil_2, …); every "
    "further column is a label, such as category",
    reference="as people write it",
    sniff=lambda path: path.is_file() and is_table(path) and has_choices(sniffed_columns(path)),
    read=read,
    options=(*OPTIONS, MISSING, bad_rows_option("refuse")),
    one_file=True,
)
