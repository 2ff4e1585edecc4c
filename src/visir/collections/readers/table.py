"""A table with a picture and its caption(s) in every row: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import visir.collections.tables as usual
from visir.collections.archives import pictures_in_cells
from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import SPLITS, plain_name, plain_stem
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import (
    TextLayout,
    entries_of,
    first_cells,
    first_columns,
    is_table,
    is_text_table,
    one_column,
    read_rows,
    text_layout,
)
from visir.display import listed
from visir.errors import CollectionError, VisirError

COLUMN_OPTIONS = (
    Option("image", "the column of the picture's file name (default: file_name, image, file, …)"),
    Option("caption", "the column of the caption(s), or several, comma-separated (default: text, caption, …)"),
    Option("id", "the column of the image's id (default: image_id, else the file name)"),
    Option("caption_id", "the column of the caption's id (default: caption_id; else image#n)"),
    Option("split_column", "the column of the split (default: split)"),
    Option("language_column", "the column of the language of the captions (default: language)"),
)
TEXT_OPTIONS = (
    Option("header", "of a CSV file: whether its first line has names, yes or no (default: no if it names a picture)",
           "", one_of("yes", "no")),
    Option("encoding", "of a CSV file that is not UTF-8: latin-1, cp1252, gbk, … (UTF-16 is recognised)", ""),
    Option("delimiter", "of a CSV file: comma, semicolon, tab, bar, or the character (default: the one that fits)", ""),
)  # fmt: skip


@dataclass(frozen=True)
class TableColumns:
    """Which column holds what; None where there is no such column."""

    image: str | None = None  # the file name of the picture
    captions: tuple[str, ...] = ()  # the captions, in one or several columns
    image_id: str | None = None  # the id of the image
    caption_id: str | None = None  # the ids of the captions
    split: str | None = None  # the split
    language: str | None = None  # the language of the captions

    @classmethod
    def find(
        cls,
        path: Path | str,
        columns: list[str],
        image: str | None = None,
        caption: str | None = None,
        id: str | None = None,
        caption_id: str | None = None,
        split_column: str | None = None,
        language_column: str | None = None,
    ) -> TableColumns:
        """Find them among the columns of a table, by the names that somebody gave and the usual ones."""
        names = str(caption).split(",") if caption else [None]
        captions = [
            one_column(path, columns, name, usual.CAPTION_COLUMNS, "caption")
            or one_column(path, columns, name, usual.CAPTION_ALSO, "caption")
            for name in names
        ]
        return cls(
            one_column(path, columns, image, usual.IMAGE_COLUMNS, "image")
            or one_column(path, columns, image, usual.IMAGE_ALSO, "image"),
            tuple(caption for caption in captions if caption is not None),
            one_column(path, columns, id, usual.IMAGE_ID_COLUMNS, "id"),
            one_column(path, columns, caption_id, usual.CAPTION_ID_COLUMNS, "caption id"),
            one_column(path, columns, split_column, usual.SPLIT_COLUMNS, "split"),
            one_column(path, columns, language_column, usual.LANGUAGE_COLUMNS, "language"),
        )

    @property
    def used(self) -> set[str | None]:
        """All of them but the language, which is also a fact of the image where all its rows have the same."""
        return {self.image, *self.captions, self.image_id, self.caption_id, self.split}


def read(path: Path, *, header: str = "", encoding: str = "", delimiter: str = "", **columns: str | None) -> Draft:
    """Read a table: one row per image, with a caption or a list of captions, or one row per caption."""
    # - Rows with the same image are joined. The image's id is its file name as written, unless a column holds one. Rows
    #   that say different splits or classes of one image are faults; an empty cell says nothing.
    # - Null and missing captions are none.
    # - What separates the cells of a text table (comma, semicolon, tab, bar) is found out.
    # - Columns without names are called by their positions, "1", "2", …; so can those be that have names.
    # - A language is that of all captions of its row, or a list with the language of each.
    # - Further columns are the collection's facts. One that differs between rows of an image is left out, with a note.
    # - Pictures are looked for beside the file, or where `images=` says.
    draft = Draft(plain_stem(path), path.parent, f"table {path.name}")
    layout = None
    if is_text_table(path):
        layout = text_layout(path, header=header, encoding=encoding, delimiter=delimiter)
        if not layout.has_header and not any(columns.get(name) for name in ("image", "caption")):
            columns |= _guessed(path, layout)
            draft.notes.append(f"no header line: images in column {columns['image']}, captions in {columns['caption']}")
    names = first_columns(path, layout)
    table_columns = TableColumns.find(path, names, **columns)
    if table_columns.image is None and table_columns.image_id is None:
        raise CollectionError(f"{path}: no column of images.", hint=_advice(path) or f"there are: {', '.join(names)}")
    if not table_columns.captions:
        draft.notes.append(f"no captions: none of the columns {', '.join(names)} has a usual name; caption= names it")
    filler = DraftFiller(draft, table_columns)
    filler.add(read_rows(path, layout=layout))
    return filler.finish()


def _guessed(path: Path, layout: TextLayout) -> dict[str, str | None]:
    """Which of two columns without names has the images."""
    first = next(iter(first_cells(path, layout, rows=1)), [])
    pictures = [place for place, cell in enumerate(first, 1) if is_picture_name(cell)]
    if len(first) == 2 and len(pictures) == 1:
        return {"image": str(pictures[0]), "caption": str(3 - pictures[0])}
    raise CollectionError(
        f"{path}: its first line has no names of columns.", hint=_advice(path), code="first-line-no-names"
    )


def _advice(path: Path) -> str:
    """The columns of a table, and a line that opens it."""
    if not is_table(path):
        return ""
    try:
        layout = text_layout(path) if is_text_table(path) else None
        names = first_columns(path, layout)
        rows = [row for _, row in itertools.islice(read_rows(path, layout=layout), 5)]
    except VisirError:
        return ""
    if len(names) < 2 or not rows:
        return ""
    pictures = [name for name in names if any(is_picture_name(str(row.get(name))) for row in rows)]
    image = pictures[0] if pictures else names[0]
    texts = {name: max(len(str(row.get(name) or "").split()) for row in rows) for name in names if name != image}
    caption = max(texts, key=lambda name: texts[name])
    sample = next((str(rows[0].get(name)) for name in names), "")
    shown = (
        ", ".join(names) if layout is None or layout.has_header else f"{len(names)} without names, from {sample!r} on"
    )
    return (
        f'it has the columns {shown}; name them: visir.open("{path.name}", image="{image}", caption="{caption}"), '
        f'or "{path.name}?image={image}&caption={caption}" in a command'
    )


@dataclass(slots=True)
class _Image:
    """What the rows of one image say."""

    row: int  # its row in the draft
    place: str  # the place of its first row
    facts: dict[str, Any]  # the further columns of its first row
    captions: int = 0  # how many captions it has so far


@dataclass
class DraftFiller:
    """Puts rows of tables into a draft: those of one image become one image."""

    draft: Draft  # the draft
    columns: TableColumns = TableColumns()  # which column holds what
    folder: str = ""  # is put before file names
    split: str = ""  # the split of rows without one
    classes: frozenset[str] = frozenset(usual.CLASS_COLUMNS)  # the columns of which an image has one value, lower case
    images: dict[str, _Image] = field(default_factory=dict)  # what is known of each image, by its id
    # The further columns that differ between the rows of an image: where they do first.
    differing: dict[str, str] = field(default_factory=dict)
    # By image and column the first value that is not empty, and its place.
    values: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)
    nulls: list[str] = field(default_factory=list)  # the places of captions that are null

    def add(self, rows: Iterable[tuple[str, dict[str, Any]]], where: str = "") -> None:
        """All rows of one table."""
        for place, row in rows:
            self._add_row(f"{where}{place}", row)

    def finish(self) -> Draft:
        """The draft, with the further columns as facts."""
        self.draft.facts = facts_table(
            [
                {"image_id": identifier} | {k: v for k, v in image.facts.items() if k not in self.differing}
                for identifier, image in self.images.items()
            ]
        )
        self.draft.notes += [
            f"column {name!r} is left out: it differs between the rows of an image ({differs})"
            for name, differs in self.differing.items()
            if name != self.columns.language
        ]
        if self.nulls:
            places = listed(self.nulls[:3], len(self.nulls))
            self.draft.notes.append(f"captions that are null are left out: {len(self.nulls):,} ({places})")
        return self.draft

    def _add_row(self, place: str, row: dict[str, Any]) -> None:
        columns, draft = self.columns, self.draft
        name = row.get(columns.image) if columns.image else None
        identifier = row.get(columns.image_id) if columns.image_id else None
        if isinstance(name, Path):
            name = name.as_posix()
        if name is not None and not isinstance(name, str):
            draft.fault(f"{place}: {columns.image} must be a file name, found {type(name).__name__}")
            return
        name = f"{self.folder}{name}" if name else None
        identifier = str(identifier) if identifier not in (None, "") else name
        if identifier is None:
            draft.fault(f"{place}: no image ({columns.image} is empty)")
            return
        image = self._image(identifier, name, place, {k: v for k, v in row.items() if k not in columns.used})
        split = self.split
        if columns.split and row.get(columns.split):
            split = SPLITS.get(str(row[columns.split]).lower(), str(row[columns.split]))
        draft.splits[image.row] = self._one(identifier, "split", split, place) or ""
        cells = [row.get(column) for column in columns.captions]
        texts = [entry for cell in cells for entry in entries_of(cell, texts=True)]
        ids = [str(own) for own in entries_of(row.get(columns.caption_id))] if columns.caption_id else []
        languages: list[str | None] = [None] * len(texts)
        if columns.language and texts:
            languages = _languages(row.get(columns.language), len(texts))
        if None in cells or None in texts:
            self.nulls.append(place)
            given = [place for place, text in enumerate(texts) if text is not None]
            if len(ids) == len(texts):
                ids = [ids[place] for place in given]
            if len(languages) == len(texts):
                languages = [languages[place] for place in given]
            texts = [texts[place] for place in given]
        image.captions = draft.add_captions_of_row(
            place, identifier, texts, image.captions, ids=ids, languages=languages
        )

    def _image(self, identifier: str, name: str | None, place: str, facts: dict[str, Any]) -> _Image:
        """An image with what a row says of it."""
        image = self.images.get(identifier)
        if image is None:
            image = self.images[identifier] = _Image(len(self.draft.ids), place, facts)
            self.draft.add_image(identifier, name)
        for column in [column for column in facts if column.lower() in self.classes]:
            value = self._one(identifier, column, facts[column], place, several=bool(self.columns.captions))
            image.facts[column] = facts[column] = value
        if facts is not image.facts:
            for column in facts.keys() | image.facts.keys():
                if column not in self.differing and not _same(facts.get(column), image.facts.get(column)):
                    self.differing[column] = f"{identifier}, {image.place} and {place}"
        return image

    def _one(self, image: str, column: str, value: Any, place: str, *, several: bool = False) -> Any:
        """What an image has one of, from all its rows: an empty cell says nothing, two values are a fault."""
        # several: Whether rows may differ, because they are of captions; the column is then left out.
        value = value.strip() if isinstance(value, str) else value
        if value is None or value == "":
            return self.values.get((image, column), (value,))[0]
        first, first_place = self.values.setdefault((image, column), (value, place))
        if first != value and several:
            self.differing.setdefault(column, f"{image}, {first_place} and {place}")
        elif first != value:
            self.draft.fault(
                f"{image}: {column} {first!r} in {first_place}, but {value!r} in {place}; an image has one"
            )
        return first


def _languages(value: Any, captions: int) -> list[str | None]:
    """The language of each caption of a row: one for all, or a list."""
    values = value if isinstance(value, list) else [value] * captions
    return [None if name is None else str(name).strip() or None for name in values]


def _same(cell: Any, other: Any) -> bool:
    """Whether two cells are equal; those of data frames may be arrays."""
    equal = cell == other
    return bool(equal) if isinstance(equal, bool) else np.array_equal(cell, other)


def facts_table(rows: list[dict[str, Any]]) -> pa.Table | None:
    """Further columns as a table, None without any; one whose values Arrow cannot hold (a number, a text) as text."""
    names = dict.fromkeys(name for row in rows for name in row)
    if len(names) < 2:
        return None
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # whole numbers beyond 64 bits with sign
            columns[name] = pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.table(columns)


def _sniff(path: Path) -> bool:
    if not path.is_file() or not (is_table(path) or is_text_table(path)):
        return False
    try:
        layout = text_layout(path) if is_text_table(path) else None
        if layout is not None and not layout.has_header:
            return plain_name(path).lower().endswith((".csv", ".tsv"))
        columns = {name.lower() for name in first_columns(path, layout)}
    except VisirError:
        return False
    images = {*usual.IMAGE_COLUMNS, *usual.IMAGE_ALSO}
    texts = {*usual.CAPTION_COLUMNS, *usual.CAPTION_ALSO, *usual.CLASS_COLUMNS}
    return bool(columns & images) and bool(columns & texts) and not pictures_in_cells(path)


FORMAT = Format(
    name="table",
    title="table of pictures and captions",
    layout="file.csv, .tsv, .jsonl or .parquet with a column of file names and one or more of captions",
    reference="",
    sniff=_sniff,
    options=(*COLUMN_OPTIONS, *TEXT_OPTIONS),
    read=read,
    one_file=True,
    advice=_advice,
)
