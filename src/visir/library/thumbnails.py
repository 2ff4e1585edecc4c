"""Thumbnails on disk: WebP, one file per item, found again by a digest that the database keeps."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from visir.library.layout import THUMBNAILS, thumbnail_path


def write_thumbnail(folder: Path, item: str, data: bytes) -> None:
    """Put a thumbnail into its place, in one step.

    It is not waited for until it is on disk (8,000 waits take longer than all the rest): after a power cut a thumbnail
    can be empty, its digest says so, and it is made again.
    """
    target = thumbnail_path(folder, item)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def remove_thumbnails(folder: Path, items: Iterable[str]) -> None:
    """Remove the thumbnails of these items."""
    for item in items:
        thumbnail_path(folder, item).unlink(missing_ok=True)


def sweep_thumbnails(folder: Path, items: Collection[str]) -> None:
    """Remove those of other items, and what a killed writer left."""
    kept = set(items)
    for path in (folder / THUMBNAILS).glob("*/*"):
        if path.suffix != ".webp" or path.stem not in kept:
            path.unlink(missing_ok=True)
