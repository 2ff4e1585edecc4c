"""Tables column by column: a whole table at once, where it can be read so with the same meaning.

A table of a million rows is a million small objects as rows, and a few arrays as columns. `at_once` gives the columns,
or None: then the rows of the table (`visir.collections.tables`) say what is in it, and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from visir.collections.readers.names import plain_name
from visir.collections.tables import (
    DELIMITERS,
    JSON_LINES,
    UTF_8,
    OpenTable,
    TextLayout,
    is_text_table,
    to_microseconds,
    whole_json,
)
from visir.errors import CollectionError, VisirError
from visir.files import BROKEN, open_binary, read_bytes

Cells: TypeAlias = pa.StringArray | pa.ListArray | list[Any]
"""A column: texts, or lists of texts, as Arrow has them; anything else as Python does."""


@dataclass(frozen=True)
class ColumnTable:
    """All cells of a table."""

    cells: dict[str, Cells]  # by column; as the rows of the table have them
    place: Callable[[int], str]  # from the number of a row, from 0, to its place, as errors name it


def at_once(table: OpenTable) -> ColumnTable | None:
    """The cells of a table; None where only its rows can say what they mean."""
    path = table.path
    try:
        if path is None:
            return _held(table.held) if table.held else None
        if table.layout is not None:
            return _text_table(path, table.layout, table.columns)
        if plain_name(path).lower().endswith(JSON_LINES):
            return _json(path)
        return None if is_text_table(path) else _parquet(path)
    except (VisirError, pa.ArrowException, UnicodeError, LookupError, *BROKEN):
        return None  # the rows say what is wrong, and where


def as_cells(values: Sequence[Any]) -> Cells:
    """A column of Python's values; texts, and lists of texts, as Arrow has them."""
    values = values if isinstance(values, list) else list(values)
    # Not all is looked at to see that it is of numbers; and bytes and texts together are texts for Arrow.
    if not isinstance(next((value for value in values if value is not None), None), str | list):
        return values
    try:
        array = pa.array(values)
    except (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):
        return values
    kind = array.type.value_type if pa.types.is_list(array.type) else array.type
    return array if pa.types.is_string(kind) else values


def as_python(cells: Cells) -> list[Any]:
    """A column as Python's values."""
    values: list[Any] = cells if isinstance(cells, list) else cells.to_pylist()
    return values


def _numbered(word: str) -> Callable[[int], str]:
    return lambda row: f"{word} {row + 1}"


def _held(columns: Mapping[str, Sequence[Any]]) -> ColumnTable | None:
    if len({len(cells) for cells in columns.values()}) != 1:
        return None
    return ColumnTable({name: as_cells(cells) for name, cells in columns.items()}, _numbered("row"))


# CSV, by Arrow's reader where that cuts the file into the same cells.


_BLOCK = 1 << 22
"""Bytes that are read at a time; a longer row is left to the reader of rows."""


def _text_table(path: Path, layout: TextLayout, columns: list[str]) -> ColumnTable | None:
    """The cells of a text table that both readers cut in the same way."""
    # Where no cell is quoted they do. Where some are, each quote must open, close, or stand doubled in a quoted cell:
    # Arrow takes what stands behind a closing quote as part of the cell, which is a fault here, and Python also takes
    # quotes elsewhere as they are.
    delimiter = layout.delimiter
    if layout.old_mac or layout.names_delimiter or delimiter not in DELIMITERS.values() or len(columns) < 2:
        return None
    if len({*columns}) != len(columns):
        return None
    data = read_bytes(path)
    if layout.encoding != UTF_8:
        data = data.decode(layout.encoding).encode()
    data = data.removeprefix(b"\xef\xbb\xbf") if layout.encoding == UTF_8 else data
    if (returns := data.count(b"\r")) and returns != data.count(b"\r\n"):
        return None
    data = data.replace(b"\r\n", b"\n") if returns else data
    if data.startswith(b"\xef\xbb\xbf"):
        return None
    quotes = b'"' in data
    encloses = quotes and (layout.quotes or delimiter == "\t")
    if encloses and (delimiter == "|" or not _well_quoted(delimiter).fullmatch(data)):
        return None
    start = 0
    if layout.has_header:
        start = data.find(b"\n") + 1
        if start < 2 or (encloses and data.count(b'"', 0, start) % 2):
            return None
    end = len(data)
    while end > start and data[end - 1] == 10:
        end -= 1
    if end == start:
        return None
    read = pcsv.read_csv(
        pa.BufferReader(pa.py_buffer(memoryview(data)[start:end])),
        pcsv.ReadOptions(column_names=columns, use_threads=False, block_size=_BLOCK),
        pcsv.ParseOptions(delimiter=delimiter, quote_char='"' if encloses else False, newlines_in_values=encloses),
        pcsv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False),
    )
    lines = data.count(b"\n", start, end) + 1
    again = layout.has_header and all(data.find(name.encode(), start) >= 0 for name in columns)  # it may be there again
    del data
    cells: dict[str, Cells] = {name: read[name].combine_chunks() for name in columns}
    if again and _is_in(columns, read):
        return None  # the header again, which is a fault
    first = 2 if layout.has_header else 1
    if delimiter == "|":  # bars stand with a space behind them
        cells = {name: pc.utf8_ltrim(column, " ") for name, column in cells.items()}
    if lines == read.num_rows:
        return ColumnTable(cells, lambda row: f"line {row + first}")
    # Cells over several lines, or empty lines; among tabs what those are is found out row by row.
    spans = 1 + sum(pc.count_substring(column, "\n").to_numpy() for column in cells.values())
    if delimiter == "\t" or int(spans.sum()) != lines:
        return None
    starts = np.concatenate([[0], np.cumsum(spans[:-1])]) + first
    return ColumnTable(cells, lambda row: f"line {starts[row]}")


def _is_in(row: Sequence[str], table: pa.Table) -> bool:
    """Whether a row of texts is in a table, with blanks around them or without."""
    for name in row:
        table = table.filter(pc.equal(pc.utf8_trim_whitespace(table[name]), name))
        if not table.num_rows:
            return False
    return True


def _well_quoted(delimiter: str) -> re.Pattern[bytes]:
    """A table in which quotes only enclose cells, with the quotes in them doubled."""
    mark = re.escape(delimiter.encode())
    cell = rb'(?<![^%b\n])"(?:[^"]++|"")*+"(?=[%b\n]|\Z)' % (mark, mark)
    return re.compile(rb'(?:[^"]*+%b)*+[^"]*+' % cell)


# JSON lines: objects of the same keys. Parquet.


_HINT = 1 << 22
"""About as many bytes of lines become columns at a time."""


def _json(path: Path) -> ColumnTable | None:
    whole = whole_json(path) if plain_name(path).lower().endswith(".json") else None
    if whole is not None:
        return _of_objects(iter([whole]), _numbered("object"))
    blank: list[int] = []  # the numbers of the lines without an object

    def blocks() -> Iterator[list[Any]]:
        with open_binary(path) as stream:
            lines, number = stream.readlines(_HINT), 1
            if lines:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            while lines:
                blank.extend(place for place, line in enumerate(lines, number) if not line or line.isspace())
                yield [orjson.loads(line) for line in lines if line and not line.isspace()]
                number += len(lines)
                lines = stream.readlines(_HINT)

    def place(row: int) -> str:
        number = row + 1
        for line in blank:
            number += line <= number
        return f"line {number}"

    return _of_objects(blocks(), place)


def _of_objects(blocks: Iterator[list[Any]], place: Callable[[int], str]) -> ColumnTable | None:
    """The columns of objects that all have the keys of the first; None where one has others, or is no object."""
    parts: dict[str, list[Cells]] | None = None
    try:
        for objects in blocks:
            if not objects:
                continue
            if parts is None:
                parts = {key: [] for key in objects[0]}
            if {*map(type, objects)} != {dict} or {*map(len, objects)} != {len(parts)}:
                return None
            for key, column in parts.items():
                column.append(as_cells([entry[key] for entry in objects]))
    except (KeyError, AttributeError, TypeError, orjson.JSONDecodeError):
        return None
    return None if not parts else ColumnTable({key: _joined(column) for key, column in parts.items()}, place)


def _joined(parts: list[Cells]) -> Cells:
    """The parts of a column as one."""
    kinds = {None if isinstance(part, list) else part.type for part in parts}
    if None not in kinds and len(kinds) == 1:
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return as_cells([*chain.from_iterable(map(as_python, parts))])


def _parquet(path: Path) -> ColumnTable | None:
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    with reading_parquet(path, CollectionError):
        table = pq.ParquetFile(path).read(use_threads=False)
    if len({*table.column_names}) != table.num_columns or not table.num_rows:
        return None
    return ColumnTable({name: _arrow_cells(table[name]) for name in table.column_names}, _numbered("row"))


def _arrow_cells(column: pa.ChunkedArray) -> Cells:
    """A column of Arrow's; of what is no text the values that Python has."""
    kind, texts = column.type, (pa.string(), pa.large_string())
    if (kind.value_type if pa.types.is_dictionary(kind) else kind) in texts:
        return column.cast(pa.string()).combine_chunks()
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and kind.value_type in texts:
        return column.cast(pa.list_(pa.string())).combine_chunks()
    cells = chain.from_iterable(to_microseconds(chunk).to_pylist() for chunk in column.chunks)
    return [None if not isinstance(cell, list | dict) and bool(cell != cell) else cell for cell in cells]
