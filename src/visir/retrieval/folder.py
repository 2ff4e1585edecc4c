"""An index on disk: a folder of files that never change; `visir.json` lists those that belong to the index."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from pathlib import Path

from visir.errors import VisirError
from visir.storage import (
    MANIFEST,
    FolderChange,
    FolderKind,
    LateCheck,
    Manifest,
    changing,
    check_folder,
    check_new_folder,
    is_begun,
    is_made_by_visir,
    new_folder,
)

LATE = 8 << 20
"""From so many bytes on an array is hashed while it is in use; smaller ones take less than 10 ms."""


class IndexFolderError(VisirError):
    """The folder of an index is missing, damaged, or of another kind."""


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
    """Return the manifest of an index; its `content` has at least the `kind`."""
    if is_made_by_visir(folder, "parts"):
        raise IndexFolderError(
            f"{folder}: a folder of parts, not yet an index.",
            hint=f"make one: visir index build {shlex.quote(str(folder))} --out NEW",
        )
    manifest = Manifest.read(folder, INDEX)
    if not isinstance(manifest.content.get("kind"), str):
        raise IndexFolderError(f"{folder}: its visir.json names no kind of index.", hint=BUILD_AGAIN)
    return manifest


def parts_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the parts of an index: at least one, each a folder of listed files."""
    names, folders = manifest.content["parts"], {name.partition("/")[0] for name in manifest.files}
    if not isinstance(names, list) or not names or not folders.issuperset(names):
        raise ValueError(f"its parts cannot be {names!r}")
    return tuple(names)


def check_files(folder: Path, manifest: Manifest) -> LateCheck:
    """Check the files of an index before any is read, but for large arrays: those are mapped, and hashed in a
    thread."""
    late = late_files(manifest)
    check_folder(folder, manifest, INDEX, names=lambda name: name not in late)
    return LateCheck(folder, manifest, late, INDEX)


def late_files(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the large arrays of an index, smallest first."""
    large = [(record.bytes, name) for name, record in manifest.files.items() if record.bytes >= LATE]
    return tuple(name for _, name in sorted(large) if name.endswith(".npy"))


def changing_index(folder: Path, generation: int) -> AbstractContextManager[FolderChange]:
    """Lock the index in a folder for a change."""
    waiting = "another process is changing this index; waiting for it"
    return changing(folder, INDEX, busy=waiting, make=False, generation=generation)


def new_index(folder: Path) -> AbstractContextManager[FolderChange]:
    """Write an index into a new or an empty folder."""
    _check_not_finished(folder)
    return new_folder(folder, INDEX)


def check_new_index(folder: Path) -> None:
    """Check that an index can be written into this folder: a new or an empty one, or one that a killed build left."""
    _check_not_finished(folder)
    if not is_unfinished(folder):
        check_new_folder(folder, INDEX)


def _check_not_finished(folder: Path) -> None:
    """Raise `IndexFolderError` where an index is whole: the same command, run again, has nothing left to do."""
    try:
        content = read_index(folder).content if (folder / MANIFEST).is_file() else None
    except VisirError:  # of another kind, or damaged: what is said of every folder
        return
    if content is not None:
        encoder = content.get("encoder")
        maker = encoder.get("name", "unknown") if isinstance(encoder, dict) else "unknown"
        raise IndexFolderError(
            f"{folder}: exists already: a finished index of kind {content['kind']!r}, by {maker}. Nothing was built.",
            hint=f"if it is the one you want, search it (visir index search {shlex.quote(str(folder))}); "
            f"else {INDEX.exists}",
            code="index-folder-exists-already",
        )


def is_unfinished(folder: Path) -> bool:
    """Whether a build in parts was killed here, which the same build may go on from."""
    return folder.is_dir() and not (folder / MANIFEST).exists() and is_begun(folder)


def bytes_of(manifest: Manifest) -> int:
    """Return the size of all listed files."""
    return sum(record.bytes for record in manifest.files.values())
