"""An index on disk: files that never change, and `index.json`, which says which of them count.

Whoever changes the index writes new files first and then replaces `index.json` in one step. A kill before that step
leaves the index as it was, with files beside it that nothing names; the next change removes them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from visir.errors import VisirError, raise_faults
from visir.files import atomic_folder, digest_of, read_json, write_json
from visir.locks import locked

MANIFEST = "index.json"
LAYOUT = 1
"""The version of the layout, raised when an older visir could not read a newer folder."""
_LOCK = ".lock"
_HINT = "build the index again (visir index build), or copy the folder again if it came from elsewhere"


class IndexFolderError(VisirError):
    """An index's folder is missing, damaged, or not what was expected."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `index.json` says: at least `kind`. `IndexFolderError` when there is none that makes sense."""
    path = folder / MANIFEST
    if not path.is_file():
        raise IndexFolderError(
            f"{folder}: {'holds no index (no ' + MANIFEST + ')' if folder.is_dir() else 'no such folder'}.",
            hint="make one: visir index build COLLECTION --model MODEL --kind KIND --out FOLDER",
        )
    try:
        manifest = read_json(path)
    except VisirError as fault:
        raise IndexFolderError(f"{path}: damaged: {fault.message}", hint=_HINT) from fault
    if not isinstance(manifest, dict) or not isinstance(manifest.get("kind"), str):
        raise IndexFolderError(f"{path}: names no kind of index.", hint=_HINT)
    return manifest


def check(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise `IndexFolderError` that lists every file that is missing or cut short, or else not as it was written."""
    if manifest.get("layout", 0) > LAYOUT:
        raise IndexFolderError(
            f"{folder}: written by a newer visir (layout {manifest['layout']}).", hint="update visir"
        )
    faults = []
    for name, said in manifest.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif path.stat().st_size != said["bytes"]:
            faults.append(f"{name} has {path.stat().st_size:,} bytes, {said['bytes']:,} were written")
    if not faults:  # hashing is what takes time
        for name, said in manifest.get("files", {}).items():
            if "hash" in said and digest_of(folder / name)[1] != said["hash"]:
                faults.append(f"{name} is not as it was written")
    raise_faults(IndexFolderError, f"{folder}: the index is damaged", faults, hint=_HINT)


def publish(folder: Path, manifest: dict[str, Any], names: Iterable[str]) -> int:
    """Make these files (or folders of files) the index, in one step; their size in bytes.

    Files of foreign formats are hashed: their readers may crash on a damaged byte. Arrays and Parquet are not, because
    what is in them is looked at when they are loaded.
    """
    files: dict[str, dict[str, Any]] = {}
    for name in names:
        path = folder / name
        for one in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
            said = files[one.relative_to(folder).as_posix()] = {"bytes": one.stat().st_size}
            if one.suffix not in (".npy", ".parquet"):
                said["hash"] = digest_of(one)[1]
    write_json(folder / MANIFEST, {**manifest, "layout": LAYOUT, "files": files})
    return bytes_of({"files": files})


@contextlib.contextmanager
def changing(folder: Path, generation: int) -> Iterator[int]:
    """Be the only one who changes the index in `folder`; yields the number of the new generation.

    `generation` is the one that the caller has loaded; if another process has made a newer one, that is an error.
    """
    with locked(folder / _LOCK, waiting="another process is changing this index; waiting for it", elsewhere=""):
        found = read_manifest(folder)["generation"]
        if found != generation:
            raise IndexFolderError(
                f"{folder}: another process has changed the index since it was loaded.", hint="load it again"
            )
        sweep(folder)
        try:
            yield generation + 1
        finally:
            sweep(folder)


def sweep(folder: Path) -> None:
    """Remove what `index.json` does not name: left over from a change that was killed, or replaced by one."""
    named = {name.split("/")[0] for name in read_manifest(folder)["files"]}
    for path in folder.iterdir():
        if path.name not in (MANIFEST, _LOCK) and path.name not in named:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` on success; anything but a new or an empty folder is refused."""
    refuse_filled(folder)
    with atomic_folder(folder, replace=folder.exists()) as temporary:
        yield temporary


def refuse_filled(folder: Path) -> None:
    """Raise `IndexFolderError` for anything but a new or an empty folder."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = "holds an index already" if (folder / MANIFEST).is_file() else "exists and is not an empty folder"
        raise IndexFolderError(f"{folder}: {what}.", hint="name a new folder, add to the index, or delete it first")


def bytes_of(manifest: Mapping[str, Any]) -> int:
    """The size of all files that count."""
    return sum(one["bytes"] for one in manifest["files"].values())
