"""Kinds of folders and small folders for the tests of storage."""

from pathlib import Path

from visir.storage import (
    MANIFEST,
    FolderError,
    FolderKind,
    new_folder,
)
from visir.storage.disk import files_below
from visir.storage.manifest import LOG

BOX = FolderKind("box", "a box", remedy="make a box")
LID = FolderKind("lid", "a lid")
BUSY = FolderError("busy")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content, but for visir's own manifest and log."""
    return {
        name: (folder / name).read_bytes() for name in files_below(folder) if Path(name).name not in (MANIFEST, LOG)
    }


def make(folder: Path, **files: str) -> None:
    with new_folder(folder, BOX) as change:
        for name, text in files.items():
            change.file(name).write_text(text)
