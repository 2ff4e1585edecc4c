"""Fragments behind the path of a picture: the part of it that is meant, and how its file is read.

- "a.jpg#xywh=10,20,300,200": a part, written as media fragments are (W3C)
- "a.npy#bgr": an array as OpenCV holds a picture, blue first (`visir.collections.images`)
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from PIL import Image

from visir.errors import ImageError

FRAME = "#bgr"
"""Behind the path of an array of a picture whose channels are blue, green, red."""
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


def part_fragment(part: Sequence[int]) -> str:
    """What stands behind the path of a picture of which a part is meant."""
    return f"#xywh={','.join(map(str, part))}"


def file_of(path: str) -> str:
    """The path of the file, without fragments."""
    whole = part_of(path)
    return (path if whole is None else whole[0]).removesuffix(FRAME)


def cut(picture: Image.Image, part: Part, where: str) -> bytes:
    """The bytes of a part of a picture, as BMP; what lies beyond the edge is left out."""
    left, top, width, height = part
    box = (left, top, min(left + width, picture.width), min(top + height, picture.height))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ImageError(f"{where}: the part is outside the picture of {picture.width} × {picture.height} pixels.")
    stream = io.BytesIO()
    picture.crop(box).save(stream, "BMP")
    return stream.getvalue()
