"""Tables of products: a bad row is set aside in the draft, where collections would refuse the whole file."""

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
from visir.files import open_binary
from visir.products.draft import ProductDraft

_JSON = (".jsonl", ".ndjson", ".json")


def read_rows(
    draft: ProductDraft, path: Path, *, parse: Callable[[bytes], Any] = orjson.loads
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of every readable row; the others are set aside in the draft. `parse` reads a line of JSON."""
    if plain_name(path).lower().endswith(_JSON):
        yield from tables.json_lines(path, _into(draft), parse)
    else:
        yield from tables.read_rows(path, _into(draft))


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
            row = orjson.loads(stream.readline(tables.LONGEST_CELL).removeprefix(b"\xef\xbb\xbf"))
    except (VisirError, OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError, csv.Error, ValueError):
        return []
    row = row[0] if isinstance(row, list) and row else row
    return list(row) if isinstance(row, dict) else []


def columns(path: Path) -> list[str]:
    """All columns of a table. JSON lines, whose rows may differ, are read through for it; other tables say them."""
    name = plain_name(path).lower()
    if name.endswith(_JSON):
        names: dict[str, None] = {}
        for _, row in tables.json_lines(path, _ignore):
            if not names.keys() >= row.keys():
                names |= dict.fromkeys(row)
        return list(names)
    if name.endswith((".csv", ".tsv")):
        return tables.csv_columns(path, _ignore)
    return tables.header(path)


def _into(draft: ProductDraft) -> tables.Aside:
    return lambda fault, place, detail: draft.aside(fault.many, f"{place}: {detail}")


def _ignore(fault: tables.RowFault, place: str, detail: str) -> None:
    """Rows are read once more for what they hold, and counted then."""
