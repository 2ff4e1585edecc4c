"""Rows of CSV, TSV, JSON lines and Parquet files, a bad row set aside where collections would refuse the whole file.

Files are read line by line, so that memory holds what is kept of them and never the file.
"""

from __future__ import annotations

import csv
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers import rows as tables
from visir.collections.readers.sniffing import head, plain_name
from visir.errors import CollectionError, VisirError
from visir.files import iter_lines, open_binary
from visir.products.draft import ProductDraft

_LIMIT = 1 << 26
"""A cell of a CSV file may have this many characters; longer ones are more likely a quote that was never closed."""
_JSON = (".jsonl", ".ndjson", ".json")


def read_rows(
    draft: ProductDraft, path: Path, *, parse: Callable[[bytes], Any] = orjson.loads
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of every readable row; the others are set aside in the draft.

    A line of JSON may also hold a list of objects, each a row. `parse` reads a line, and raises `ValueError` when it
    cannot.
    """
    name = plain_name(path).lower()
    if name.endswith((".csv", ".tsv")):
        yield from _delimited(draft, path, "\t" if name.endswith(".tsv") else ",")
    elif name.endswith(_JSON):
        yield from json_lines(draft, path, parse)
    else:
        yield from tables.read_rows(path)


def read_cells(draft: ProductDraft, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, row) of every readable row of a layout that is published as CSV, where every cell is text."""
    if not plain_name(path).lower().endswith((".csv", ".tsv")):
        raise CollectionError(
            f"{path}: not a CSV file, as this layout is.",
            hint="format='products' reads declared columns of other tables",
        )
    yield from read_rows(draft, path)


def header(path: Path) -> list[str]:
    """The columns that the beginning of a file shows, for telling formats apart; none where it cannot be read."""
    name = plain_name(path).lower()
    try:
        if name.endswith(".parquet"):
            return tables.header(path)
        if name.endswith((".csv", ".tsv")):
            line = head(path).removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
            text = line.decode().removesuffix("\r")
            return next(csv.reader([text], delimiter="\t" if name.endswith(".tsv") else ","), [])
        if not name.endswith(_JSON):
            return []
        with open_binary(path) as stream:  # the first product may be longer than any head of the file
            row = orjson.loads(stream.readline(_LIMIT).removeprefix(b"\xef\xbb\xbf"))
    except (VisirError, OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, csv.Error, ValueError):
        return []
    row = row[0] if isinstance(row, list) and row else row
    return list(row) if isinstance(row, dict) else []


def columns(path: Path) -> list[str]:
    """All columns of a table. JSON lines, whose rows may differ, are read through for it; other tables say them."""
    name = plain_name(path).lower()
    scratch = ProductDraft(name, path.parent, name)
    if name.endswith(_JSON):
        found: dict[str, None] = {}
        for _, row in json_lines(scratch, path):
            if not found.keys() >= row.keys():
                found |= dict.fromkeys(row)
        return list(found)
    if name.endswith((".csv", ".tsv")):
        return next(_cells(scratch, path, "\t" if name.endswith(".tsv") else ","), (0, []))[1]
    return tables.header(path)


def json_lines(
    draft: ProductDraft, path: Path, parse: Callable[[bytes], Any] = orjson.loads, *, prefix: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of the objects in a file of JSON lines; `prefix` stands before "line 7" in places."""
    for number, line in enumerate(iter_lines(path), start=1):
        if not line or line.isspace():
            continue
        place = f"{prefix}line {number}"
        try:
            found = parse(line)
        except ValueError as fault:
            draft.aside("lines that are not valid JSON", f"{place}: {str(fault)[:100]}")
            continue
        if isinstance(found, dict):
            yield place, found
        elif isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
            for count, one in enumerate(found, start=1):
                yield f"{place}, object {count}", one
        else:
            draft.aside("lines that are no JSON object", f"{place}: {line[:40].decode(errors='replace')!r}")


def _delimited(draft: ProductDraft, path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    cells = _cells(draft, path, delimiter)
    _, names = next(cells, (0, []))
    if len(set(names)) != len(names):
        raise CollectionError(f"{path}, line 1: a column is named twice: {', '.join(names)}.")
    for start, values in cells:
        if len(values) != len(names):
            draft.aside("rows with too few or too many values", f"line {start}: {len(values)} for {len(names)} columns")
        else:
            yield f"line {start}", dict(zip(names, values, strict=True))


def _cells(draft: ProductDraft, path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is readable as CSV and not empty, the header first."""
    csv.field_size_limit(_LIMIT)
    reader = csv.reader(_text(path), delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as fault:
            lines = f"line {start}" if reader.line_num <= start else f"lines {start} to {reader.line_num}"
            draft.aside("rows that are not readable as CSV", f"{lines}: {fault}")
            continue
        if values is None:
            return
        if values:
            yield start, values


def _text(path: Path) -> Iterator[str]:
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            yield f"{line.decode()}\n"
        except UnicodeDecodeError as fault:
            raise CollectionError(
                f"{path}, line {number}: not UTF-8 (byte 0x{line[fault.start]:02x}).",
                hint=f"convert it first: iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}",
            ) from fault
