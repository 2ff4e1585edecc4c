"""Text tables as people keep them: which character separates the cells, and which encoding the file has."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

DELIMITERS = (",", "\t", ";", "|")
_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


def find_delimiter(lines: Sequence[str], usual: str = ",") -> str:
    r"""Return the character that separates the cells of some lines.

    The right one cuts the lines into the same number of cells, and into more than one.

    Args:
        lines: The first lines of the file.
        usual: The character that the ending of the file stands for; it wins where several fit.

    Example:
        >>> find_delimiter(["image;caption", "a.jpg;a dog, a cat", "b.jpg;a boat, a bird"])
        ';'
        >>> find_delimiter(["image\tcaption", "a.jpg\ta dog"])
        '\t'
    """
    best, best_score = usual, (0.0, 0)
    for delimiter in (usual, *(other for other in DELIMITERS if other != usual)):
        counts = [len(cells) for cells in _parsed(lines, delimiter) if cells]
        if not counts or counts[0] < 2:
            continue
        score = (round(counts.count(counts[0]) / len(counts), 2), 0)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def find_encoding(head: bytes) -> str:
    """Return "utf-16" or "utf-32" for a file that begins with its byte order mark, else "utf-8-sig"."""
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8-sig"


def delimiter_name(delimiter: str) -> str:
    """Return what a delimiter is called: "semicolons"."""
    return _NAMES.get(delimiter, repr(delimiter))


def _parsed(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []
