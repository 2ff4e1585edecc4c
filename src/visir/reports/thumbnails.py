"""Small pictures inside the page: JPEG data URIs within a byte budget."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from PIL import Image

from visir.errors import ImageError

Key = TypeVar("Key", bound=Hashable)

_LADDER = ((168, 78), (144, 72), (120, 66), (96, 58), (72, 50))
"""(longest side in pixels, JPEG quality), tried in order until all pictures together fit the budget."""


@dataclass(frozen=True)
class Thumbnail:
    """One small picture as a data URI, with its size in pixels; or, when `uri` is empty, why there is none."""

    uri: str
    width: int = 0
    height: int = 0
    reason: str = ""


def thumbnails(keys: Sequence[Key], open_image: Callable[[Key], Image.Image], *, budget: int) -> dict[Key, Thumbnail]:
    """A thumbnail of each picture, all of one size and quality."""
    # A picture that cannot be had (not downloaded, broken) does not stop the report: its thumbnail carries the reason.
    # The same pictures always give the same bytes (one Pillow version provided).
    # budget: How many bytes of text they may take together, where that is possible.
    missing: dict[Key, Thumbnail] = {}
    shrunk: dict[Key, Image.Image] = {}
    for key in dict.fromkeys(keys):
        try:
            picture = open_image(key)
        except ImageError as fault:
            missing[key] = Thumbnail("", reason=fault.message)
            continue
        picture.thumbnail((_LADDER[0][0], _LADDER[0][0]), Image.Resampling.LANCZOS)
        shrunk[key] = picture
    for side, quality in _LADDER:
        encoded = {key: _encode(picture, side, quality) for key, picture in shrunk.items()}
        if sum(len(thumbnail.uri) for thumbnail in encoded.values()) <= budget:
            break
    return missing | encoded


def _encode(picture: Image.Image, side: int, quality: int) -> Thumbnail:
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=quality, optimize=True)
    uri = "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
    return Thumbnail(uri, small.width, small.height)
