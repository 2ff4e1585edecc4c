"""The note of a source that says how many of its pictures were found, and where; read again when one is missing."""

from __future__ import annotations

import re

_FOUND = re.compile(r"images: [\d,]+ of [\d,]+ found in ([^;]+)")


def found_note(found: int, count: int, where: str) -> str:
    """The note.

    Args:
        found: How many pictures were found.
        count: How many were looked for.
        where: The folders and archives in which they are; "" where nobody said where to look and none was found.
    """
    return f"images: {found:,} of {count:,} found" + (f" in {where}" if where else " (none beside it)")


def found_in(source: str) -> str:
    """Where pictures were found, by the `source` of a collection; "" where it has no such note.

    Example:
        >>> found_in("; ".join(["mine.csv", found_note(2, 3, "photos/")]))
        'photos/'
    """
    found = _FOUND.search(source)
    return found[1] if found else ""
