"""Pictures of a library as tiles."""

from __future__ import annotations

import base64
import io

from visir.library.ranking import LibraryHit, LibraryPicture
from visir.reports.page import Thumbnail, Tile


def tile(picture: LibraryPicture, *, side: int = 168) -> Tile:
    """A picture with its name below it; pointing at it shows where it lies."""
    note = f"{picture.rank} · {picture.score:.3f}" if isinstance(picture, LibraryHit) else ""
    shown = thumbnail(picture, side)
    return Tile(picture.caption or "", shown, picture.name, note, hint=str(picture.path or picture.id),
                lines=[picture.name])  # fmt: skip


def thumbnail(picture: LibraryPicture, side: int) -> Thumbnail:
    """A picture of a library, small; or the reason why there is none."""
    small = picture.thumbnail
    if small is None:
        return Thumbnail("", reason="no picture")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    small.convert("RGB").save(stream, "WEBP", quality=75)
    uri = "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
    return Thumbnail(uri, small.width, small.height)
