"""A part of a picture as a path, written as media fragments are (W3C): "a.jpg#xywh=10,20,300,200"."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from PIL import Image

from visir.errors import ImageError

_PART = re.compile(r"(.+)#xywh=(\d+),(\d+),(\d+),(\d+)")

Part = tuple[int, int, int, int]
"""(left, top, width, height), in pixels."""


def part_of(path: str | None) -> tuple[str, Part] | None:
    """The path of the whole picture and the part, of a path that names a part; else None."""
    match = None if path is None else _PART.fullmatch(path)
    if match is None:
        return None
    left, top, width, height = (int(number) for number in match.groups()[1:])
    return match[1], (left, top, width, height)


def with_part(path: str, part: Sequence[int]) -> str:
    """The path of a part of a picture."""
    return f"{path}#xywh={','.join(map(str, part))}"


def cut(picture: Image.Image, part: Part, where: str) -> bytes:
    """The bytes of a part of a picture, as BMP; what lies beyond the edge is left out.

    Raises:
        ImageError: Nothing of the part is in the picture.
    """
    left, top, width, height = part
    box = (left, top, min(left + width, picture.width), min(top + height, picture.height))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ImageError(f"{where}: the part is outside the picture of {picture.width} × {picture.height} pixels.")
    stream = io.BytesIO()
    picture.crop(box).save(stream, "BMP")
    return stream.getvalue()
