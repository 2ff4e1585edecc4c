"""The note of a source that says how many of its pictures were found, and where; read again when one is missing."""

from __future__ import annotations

import re

from visir.errors import ImageError

_FOUND = re.compile(r"images: [\d,]+ of [\d,]+ found in ([^;]+)")


def found_note(number: int, count: int, where: str) -> str:
    """The note.

    Args:
        number: How many pictures were found.
        count: How many were looked for.
        where: The folders and archives in which they are; "" where nobody said where to look and none was found.
    """
    return f"images: {number:,} of {count:,} found" + (f" in {where}" if where else " (none beside it)")


def no_picture(where: str, source: str) -> ImageError:
    """The error for a picture without a path.

    Args:
        where: The picture, as errors name it.
        source: Of its collection: the note in it says where other pictures were found.

    Example:
        >>> print(no_picture("image 'c'", "; ".join(["mine.csv", found_note(2, 3, "photos/")])).message)
        image 'c': not found in photos/, where others are.
        >>> print(no_picture("image 'c'", "mine.csv").message)
        image 'c': only its metadata is at hand.
    """
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
