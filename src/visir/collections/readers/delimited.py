"""Text tables as people save them: what separates the cells, which encoding, and whether the first line has names."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.sniffing import head, plain_name
from visir.errors import CollectionError

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "bar": "|"}
TEXT_TABLES = (".csv", ".tsv", ".txt")
UTF_8 = "utf-8-sig"


@dataclass(frozen=True)
class TextLayout:
    """How a text table is written."""

    delimiter: str = ","  # the character between two cells
    encoding: str = UTF_8  # of the file
    has_header: bool = True  # whether the first line has the names of the columns; without, they are called "1", "2", …


def is_text_table(path: Path) -> bool:
    """Whether the name of a file ends like that of a text table."""
    return plain_name(path).lower().endswith(TEXT_TABLES)


def text_layout(path: Path, *, delimiter: str = "", encoding: str = "", header: str = "") -> TextLayout:
    """Return how a text table is written, by its beginning."""
    data = head(path)
    encoding = encoding or find_encoding(data)
    try:
        text = data.decode(encoding, "replace")
    except LookupError:
        raise CollectionError(
            f"{path}: there is no encoding {encoding!r}.",
            hint="for example latin-1, cp1252, utf-16 or gbk",
            code="no-encoding",
        ) from None
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][:20]
    usual = "\t" if plain_name(path).lower().endswith(".tsv") else ","
    delimiter = DELIMITERS.get(delimiter, delimiter) or find_delimiter(lines, usual)
    first = next(iter(_parsed(lines[:1], delimiter)), [])
    has_header = header == "yes" or (header != "no" and not any(is_picture_name(cell.strip()) for cell in first))
    return TextLayout(delimiter, encoding, has_header)


def find_delimiter(lines: Sequence[str], usual: str = ",") -> str:
    r"""Return the character that separates the cells of some lines."""
    # The right one cuts the lines into the same number of cells, and into more than one.
    best, best_share = usual, 0.0
    for delimiter in (usual, *(other for other in DELIMITERS.values() if other != usual)):
        counts = [len(cells) for cells in _parsed(lines, delimiter) if cells]
        share = counts.count(counts[0]) / len(counts) if counts and counts[0] > 1 else 0.0
        if share > best_share:
            best, best_share = delimiter, share
    return best


def find_encoding(data: bytes) -> str:
    """Return the encoding that the first bytes of a file tell: UTF-16 or UTF-32, else "utf-8-sig"."""
    if data.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = data[:200]  # without a mark: every other byte of letters without accents is 0
    for zeros, encoding in ((start[1::2], "utf-16-le"), (start[::2], "utf-16-be")):
        if zeros.count(0) * 2 > max(1, len(zeros)):
            return encoding
    return UTF_8


def first_cells(path: Path, layout: TextLayout, rows: int = 5) -> list[list[str]]:
    """Return the cells of the first rows of a text table."""
    text = head(path).decode(layout.encoding, "replace")
    lines = [line for line in text.splitlines(keepends=True) if line.strip()][:rows]
    return [[cell.strip() for cell in cells] for cells in _parsed(lines, layout.delimiter)]


def _parsed(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []
