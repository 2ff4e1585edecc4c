"""The note of a source that says how many of its pictures were found, and where; read again when one is missing."""

from __future__ import annotations

import re

from visir.errors import ImageError

_FOUND = re.compile(r"images: [\d,]+ of [\d,]+ found in ([^;]+)")


def found_note(number: int, count: int, where: str) -> str:
    """The note."""
    return f"images: {number:,} of {count:,} found" + (f" in {where}" if where else " (none beside it)")


def no_picture(where: str, source: str) -> ImageError:
    """The error for a picture without a path."""
    option = "(--images; in a recipe data.images)"
    note = _FOUND.search(source)
    if note is None:
        return ImageError(
            f"{where}: only its metadata is at hand.",
            hint=f"say where the pictures are: images=FOLDER_OR_ZIP {option}",
            code="metadata-hand",
        )
    return ImageError(
        f"{where}: not found in {note[1]}, where others are.",
        hint=f"mend its name; or say where it is beside these: images=[PLACE, PLACE] {option}",
    )
