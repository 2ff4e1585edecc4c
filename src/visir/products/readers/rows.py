"""Rows of CSV, TSV, JSON lines and Parquet files, a bad row set aside where collections would refuse the whole file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers import rows as tables
from visir.collections.readers.sniffing import head, plain_name
from visir.errors import CollectionError, VisirError
from visir.files import read_lines
from visir.products.draft import ProductDraft

_LIMIT = 1 << 26
"""A cell of a CSV file may have this many characters; longer ones are more likely a quote that was never closed."""
_JSON = (".jsonl", ".ndjson", ".json")


def read_rows(draft: ProductDraft, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of every readable row; the others are set aside in the draft."""
    name = plain_name(path).lower()
    if name.endswith((".csv", ".tsv")):
        yield from _delimited(draft, path, "\t" if name.endswith(".tsv") else ",")
    elif name.endswith(_JSON):
        yield from _json_lines(draft, path)
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
        line = head(path).removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
        if name.endswith((".csv", ".tsv")):
            text = line.decode().removesuffix("\r")
            return next(csv.reader([text], delimiter="\t" if name.endswith(".tsv") else ","), [])
        row = orjson.loads(line) if name.endswith(_JSON) else None
    except (VisirError, UnicodeDecodeError, csv.Error, orjson.JSONDecodeError):
        return []
    return list(row) if isinstance(row, dict) else []


def _delimited(draft: ProductDraft, path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    csv.field_size_limit(_LIMIT)
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    while True:
        start = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as fault:
            lines = f"line {start}" if reader.line_num <= start else f"lines {start} to {reader.line_num}"
            draft.aside("rows that are not readable as CSV", f"{lines}: {fault}")
            continue
        if values is None:
            break
        if columns is None:
            columns = values
            if len(set(columns)) != len(columns):
                raise CollectionError(f"{path}, line 1: a column is named twice: {', '.join(columns)}.")
        elif values and len(values) != len(columns):
            draft.aside(
                "rows with too few or too many values", f"line {start}: {len(values)} for {len(columns)} columns"
            )
        elif values:
            yield f"line {start}", dict(zip(columns, values, strict=True))


def _json_lines(draft: ProductDraft, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as fault:
            draft.aside("lines that are not valid JSON", f"line {number}: {fault}")
            continue
        if isinstance(row, dict):
            yield f"line {number}", row
        else:
            draft.aside("lines that are no JSON object", f"line {number}: {line[:40]!r}")
