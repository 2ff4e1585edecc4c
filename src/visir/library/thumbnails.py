"""Thumbnails on disk: WebP, one file per item, found again by a digest that the database keeps."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from visir.library.layout import LibraryError, thumbnail_name, thumbnail_path
from visir.library.pictures import thumbnail_digest
from visir.storage.removal import mode_of


def write_thumbnail(folder: Path, item: str, data: bytes) -> None:
    """Write a thumbnail whose digest is written down already."""
    # The write is not synchronised to disk (8,000 such waits take longer than all the rest), so a kill can leave a torn
    # file: its digest does not match then, and the thumbnail is made again.
    path = thumbnail_path(folder, item)
    mode = mode_of(folder, thumbnail_name(item))
    if mode is not None and not stat.S_ISREG(mode):  # nothing is written through a link
        raise LibraryError(f"{path}: is there already, and visir did not write it.", hint="move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def is_sound(folder: Path, item: str, digest: str) -> bool:
    """Whether the thumbnail of an item is there as it was written."""
    try:
        return thumbnail_digest(thumbnail_path(folder, item).read_bytes()) == digest
    except OSError:
        return False


def thumbnails_as_written(folder: Path, digests: Mapping[str, str | None]) -> list[str]:
    """The names of the thumbnails of these items (`digests`: from item to digest) that are as they were written."""
    return [thumbnail_name(item) for item, digest in digests.items() if digest and is_sound(folder, item, digest)]
