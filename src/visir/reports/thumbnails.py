"""Small pictures inside the page: JPEG data URIs within a byte budget."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from visir.errors import ImageError

_LADDER = ((168, 78), (144, 72), (120, 66), (96, 58), (72, 50))
"""(longest side in pixels, JPEG quality), tried in order until all pictures together fit the budget."""


@dataclass(frozen=True)
class Thumbnail:
    """One small picture as a data URI, with its size in pixels; or, when `uri` is empty, why there is none."""

    uri: str
    width: int = 0
    height: int = 0
    reason: str = ""


def thumbnails(ids: Sequence[str], open_image: Callable[[str], Image.Image], *, budget: int) -> dict[str, Thumbnail]:
    """A thumbnail of each image, all of one size and quality, together at most `budget` bytes of text where possible.

    A picture that cannot be had (not downloaded, broken) does not stop the report: its thumbnail carries the reason.
    The same pictures always give the same bytes (one Pillow version provided).
    """
    made: dict[str, Thumbnail] = {}
    shrunk: dict[str, Image.Image] = {}
    for one in dict.fromkeys(ids):
        try:
            picture = open_image(one)
        except ImageError as fault:
            made[one] = Thumbnail("", reason=fault.message)
            continue
        picture.thumbnail((_LADDER[0][0], _LADDER[0][0]), Image.Resampling.LANCZOS)
        shrunk[one] = picture
    for side, quality in _LADDER:
        encoded = {one: _encode(picture, side, quality) for one, picture in shrunk.items()}
        if sum(len(thumbnail.uri) for thumbnail in encoded.values()) <= budget:
            break
    return made | encoded


def _encode(picture: Image.Image, side: int, quality: int) -> Thumbnail:
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=quality, optimize=True)
    return Thumbnail(
        "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii"), small.width, small.height
    )
