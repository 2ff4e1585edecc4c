"""Which columns a table has, and which of them holds what."""

from __future__ import annotations

import lzma
import zlib
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers.delimited import TextLayout, first_cells, is_text_table, text_layout
from visir.collections.readers.rows import JSON_LINES, LONGEST_CELL, RowFault, csv_columns, json_lines, read_rows
from visir.collections.readers.sniffing import plain_name
from visir.errors import CollectionError, VisirError
from visir.files import open_binary

IMAGE_COLUMNS = ("file_name", "image", "filename", "file", "image_path", "filepath", "img", "image_name")
CAPTION_COLUMNS = ("text", "caption", "captions", "texts", "sentence", "sentences", "raw", "description", "title")
IMAGE_ALSO = ("photo", "picture", "path", "img_path", "image_file", "file_path", "img_name", "image_url")
CAPTION_ALSO = ("comment", "comments", "alt_text", "alt", "sentence1")
"""Names that count where there is none of the usual ones."""
CLASS_COLUMNS = ("class", "label", "category", "class_name", "label_name", "classname", "labels", "target")
"""What columns of classes are usually called."""
IMAGE_ID_COLUMNS = ("image_id", "imgid")
CAPTION_ID_COLUMNS = ("caption_id", "caption_ids", "sentid", "sentids")
SPLIT_COLUMNS = ("split", "set", "partition")
LANGUAGE_COLUMNS = ("language",)


def first_columns(path: Path, layout: TextLayout | None = None) -> list[str]:
    """The columns of a table's first row, for reading it."""
    if plain_name(path).lower().endswith(".parquet"):
        return _parquet_columns(path)
    if is_text_table(path):
        return csv_columns(path, layout=layout)
    return list(next(read_rows(path), ("", {}))[1])


def all_columns(path: Path) -> list[str]:
    """All columns of a table. JSON lines, whose rows may differ, are read through for it; faulty rows are left out."""
    name = plain_name(path).lower()
    if name.endswith(JSON_LINES):
        names: dict[str, None] = {}
        for _, row in json_lines(path, _ignore):
            if not names.keys() >= row.keys():
                names |= dict.fromkeys(row)
        return list(names)
    if name.endswith((".csv", ".tsv")):
        return csv_columns(path, _ignore)
    return first_columns(path)


def sniffed_columns(path: Path) -> list[str]:
    """The columns that the beginning of a file shows, for telling formats apart; none where it cannot be read."""
    name = plain_name(path).lower()
    try:
        if name.endswith(".parquet"):
            return _parquet_columns(path)
        if name.endswith((".csv", ".tsv")):
            return next(iter(first_cells(path, text_layout(path), rows=1)), [])
        if not name.endswith(JSON_LINES):
            return []
        with open_binary(path) as stream:  # the first row may be longer than any head of the file
            row = orjson.loads(stream.readline(LONGEST_CELL).removeprefix(b"\xef\xbb\xbf"))
    except (VisirError, OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, ValueError):
        return []
    row = row[0] if isinstance(row, list) and row else row
    return list(row) if isinstance(row, dict) else []


def one_column(
    path: Path | str, columns: list[str], name: str | int | None, usual: tuple[str, ...], content: str
) -> str | None:
    """The column that holds something."""
    if name is not None:
        name = str(name)
        if name not in columns and name.isdecimal() and 0 < int(name) <= len(columns):
            return columns[int(name) - 1]
        if name not in columns:
            raise CollectionError(
                f"{path}: no column {name!r}.", hint=f"there are: {', '.join(columns)}", code="no-such-column"
            )
        return name
    matching = (column for usual_name in usual for column in columns if column.lower() == usual_name.lower())
    candidates = list(dict.fromkeys(matching))
    if len(candidates) > 1:
        raise CollectionError(
            f"{path}: the {content} could be in {' or '.join(map(repr, candidates))}.",
            hint=f"say which: {_option(content)}={candidates[0]}",
            code="several-columns",
        )
    return candidates[0] if candidates else None


def _option(content: str) -> str:
    """The option that names the column of a content."""
    name = content.replace(" ", "_")
    return name if name in ("image", "caption", "id", "caption_id") else f"{name}_column"


class ColumnPicker:
    """Picks values out of rows by the names of their columns; JSON rows may bring new columns at any time."""

    def __init__(
        self,
        file: Path,
        prefix: str = "",
        /,
        *,
        first: tuple[str, ...] = (),
        **names: tuple[str | None, tuple[str, ...]],
    ) -> None:
        self._file = file
        self._prefix = prefix
        self._first = first
        self._names = names
        self._known: dict[str, None] = {}
        self._columns: dict[str, str | None] = {}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The value of each name; None where the row has none."""
        if not row.keys() <= self._known.keys():
            self._known |= dict.fromkeys(row)
            self._columns = {name: named or self._usual(name, usual) for name, (named, usual) in self._names.items()}
        return {name: None if column is None else row.get(column) for name, column in self._columns.items()}

    def _usual(self, name: str, usual: tuple[str, ...]) -> str | None:
        columns = list(self._known)
        if name in self._first:
            lowered = {column.lower(): column for column in columns[::-1]}
            return next((lowered[usual_name] for usual_name in usual if usual_name in lowered), None)
        return one_column(self._file, columns, None, usual, f"{self._prefix}{name}")

    def never_seen(self) -> list[str]:
        """What is wrong with the columns that somebody named: those that no row has."""
        return [
            f"{self._file.name}: no column {named!r}; there are: {', '.join(self._known)}"
            for named, _ in self._names.values()
            if named is not None and named not in self._known
        ]


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    with reading_parquet(path, CollectionError):
        return list(pq.read_schema(path).names)


def _ignore(fault: RowFault, place: str, detail: str) -> None:
    """Rows are read once more for what they hold, and counted then."""
