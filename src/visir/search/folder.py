"""An index on disk: a folder that visir made, of files that never change; `visir.json` says which of them count."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from visir.errors import VisirError
from visir.storage import FolderChange, FolderKind, Manifest, changing, check_new_folder, new_folder


class IndexFolderError(VisirError):
    """An index's folder is missing, damaged, or not what was expected."""


BUILD_AGAIN = (
    "build the index again: visir index build COLLECTION --model MODEL --kind KIND --out FOLDER; or copy the folder "
    "again if it came from elsewhere"
)
INDEX = FolderKind(
    "index",
    "an index",
    remedy=BUILD_AGAIN,
    error=IndexFolderError,
    exists="name a new folder, add to the index (visir index add), or delete it first",
)


def read_index(folder: Path) -> Manifest:
    """The manifest of an index, whose `content` has at least its `kind`.

    Raises:
        IndexFolderError: There is none, or none that makes sense.
    """
    manifest = Manifest.read(folder, INDEX)
    if not isinstance(manifest.content.get("kind"), str):
        raise IndexFolderError(f"{folder}: its visir.json names no kind of index.", hint=BUILD_AGAIN)
    return manifest


def parts_of(manifest: Manifest) -> tuple[str, ...]:
    """The names of an index's parts: at least one, each a folder with files that count. `ValueError` for others."""
    names, folders = manifest.content["parts"], {name.partition("/")[0] for name in manifest.files}
    if not isinstance(names, list) or not names or not folders.issuperset(names):
        raise ValueError(f"its parts cannot be {names!r}")
    return tuple(names)


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise `IndexFolderError` that lists every file that is missing, cut short, or not as it was written.

    Files of foreign formats are hashed: their readers may crash on a damaged byte. Arrays and Parquet are not, because
    what is in them is looked at when they are loaded.
    """
    manifest.check(folder, INDEX, hashed=lambda name: not name.endswith((".npy", ".parquet")))


def changing_index(folder: Path, generation: int) -> AbstractContextManager[FolderChange]:
    """Be the only one who changes the index in `folder`.

    Args:
        folder: Of the index.
        generation: The one that the caller has loaded; if another process has made a newer one, that is an error.
    """
    waiting = "another process is changing this index; waiting for it"
    return changing(folder, INDEX, busy=waiting, make=False, generation=generation)


def new_index(folder: Path) -> AbstractContextManager[FolderChange]:
    """Make an index in a new or an empty folder."""
    return new_folder(folder, INDEX)


def check_new_index(folder: Path) -> None:
    """Raise `IndexFolderError` for anything but a new or an empty folder."""
    check_new_folder(folder, INDEX)


def bytes_of(manifest: Manifest) -> int:
    """The size of all files that count."""
    return sum(record.bytes for record in manifest.files.values())
