"""What killed updates leave behind, and what a disk that refuses to write looks like."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from visir.library.layout import CAPTIONS, DATABASE, LOCK, SYSTEMS, THUMBNAILS, WORK, LibraryError, is_library


@contextlib.contextmanager
def told_of_disk(folder: Path) -> Iterator[None]:
    """What a disk refuses (full, gone, read-only) as an error that says what is kept."""
    try:
        yield
    except OSError as fault:
        why = fault.strerror or f"{fault}: is the disk full?"
        raise LibraryError(
            f"{folder}: cannot be written ({why}); everything done so far is kept.",
            hint="make room (or mount the disk) and run the same again: it goes on from there",
        ) from fault


def _ours(name: str) -> bool:
    """Whether a killed update leaves this."""
    indexes = (*SYSTEMS, CAPTIONS)
    making = tuple(f".{one}.making{lock}" for one in indexes for lock in ("", "-lock"))  # on a server
    return name in (LOCK, WORK, THUMBNAILS, *indexes, *making) or name.startswith(DATABASE) or _temporary(name)


def _temporary(name: str) -> bool:
    """Whether this is what `visir.files` writes before it is renamed."""
    return name.startswith(".") and name.endswith((".part", ".old"))


def sweep(folder: Path) -> None:
    """Remove what was written and never renamed."""
    for path in folder.iterdir():
        if _temporary(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def refuse_foreign(folder: Path) -> None:
    """Raise `LibraryError` for a folder that holds anything but a library, or what is left of making one."""
    if not is_library(folder) and folder.is_dir() and any(not _ours(one.name) for one in folder.iterdir()):
        raise LibraryError(f"{folder}: exists and is no library.", hint="name a new folder: --out FOLDER")


def forget_empty(folder: Path) -> None:
    """Remove a folder in which nothing came to be but the lock."""
    if folder.is_dir() and all(path.name == LOCK for path in folder.iterdir()):
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
