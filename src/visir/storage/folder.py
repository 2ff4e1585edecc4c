"""Folders of visir's that live on: a library, an index, a training; how they are changed, recovered and removed.

What counts is what `visir.json` names, and that is replaced in one step at the end of a change.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from visir.errors import VisirError
from visir.storage.change import NOT_KNOWN, FolderChange
from visir.storage.claims import Claims, has_log, is_begun, make_folder
from visir.storage.disk import disk_faults
from visir.storage.manifest import LOG, MANIFEST, FileRecord, FolderError, FolderKind, Manifest
from visir.storage.removal import files_below, mode_of, remove_files

NOT_KNOWN_FILES = NOT_KNOWN.replace(" it", "")


@contextlib.contextmanager
def changing(
    folder: str | Path,
    kind: FolderKind,
    *,
    busy: str | VisirError,
    make: bool = True,
    resume: bool = False,
    trusted: bool = False,
    generation: int | None = None,
) -> Iterator[FolderChange]:
    """Change a folder of this kind, or make it; nobody else changes it meanwhile.

    What was written counts from `commit` on; a block that ends without an error and has not committed does so then. An
    error takes back what was begun (not where `resume` is set).

    Args:
        folder: A folder of this kind, or, where `make` is set, a new or an empty one.
        kind: What the folder is.
        busy: While another process changes it: a text to say once while waiting, or the error to raise.
        make: Whether to make it where there is none.
        resume: Go on from what a killed change began, and leave what this one begins to the next.
        trusted: Go on with a copy too, whose log of claims was written into another folder.
        generation: The one that the caller has read; if there is a newer one, that is an error.

    Raises:
        FolderError: (or the kind's own) The folder is of another kind, damaged, or holds files that visir did not
            write; another process is changing it; the disk refuses.
    """
    place, folder = Path(folder), Path(os.path.realpath(folder))
    with disk_faults(place, kind.error, progress=kind.progress):
        is_new = _opened(folder, kind, make, trusted)
    claiming = Claims.take(folder, busy=busy, trusted=trusted)
    with disk_faults(place, kind.error, progress=kind.progress), claiming as claims:
        manifest = Manifest.read(folder, kind) if (folder / MANIFEST).is_file() else None
        if manifest is None and not make:
            Manifest.read(folder, kind)
        if generation is not None and manifest is not None and manifest.generation != generation:
            raise kind.error(
                f"{folder}: another process has changed this {kind.noun} since.",
                hint="load it again",
                code="another-process-changed-since",
            )
        manifest = _recovered(folder, kind, claims, manifest)
        if manifest is not None:  # what was to go with a change that never counted stays, also after the next change
            claims.unclaim(*(name for name, counts in claims.gone.items() if counts > manifest.generation))
        if not resume:
            claims.remove_claimed(keep=manifest)
            claims.clear()
        change = FolderChange(folder, kind, claims, manifest=manifest)
        try:
            yield change
            if not change.committed:
                change.commit()
            elif not change.abandoned:
                claims.remove_claimed(keep=change.manifest)  # a killed writer had committed, and not cleared up
            # What is resumed later, or of a change that another verb came after, has no other record.
            if not (claims.has_folders() or (resume and change.abandoned and len(claims))):
                claims.discard()
        except BaseException:
            if not resume:
                claims.remove_claimed(keep=change.manifest)
                claims.clear()
            raise
        finally:
            if change.manifest.generation == 0 and files_below(folder) == [LOG]:
                claims.discard()  # nothing came to be: a mistyped place leaves no folder behind
                if is_new:
                    with contextlib.suppress(OSError):
                        folder.rmdir()


def put(folder: str | Path, kind: FolderKind, files: Mapping[str, bytes], *, keep: Iterable[str] = ()) -> None:
    """Write whole files into a folder of this kind, which is made if there is none; several processes may do so.

    Args:
        folder: A folder of this kind, a new or an empty one.
        kind: What it is.
        files: From the name of each file to its content.
        keep: Names of files that others write there by themselves (a log): they are the folder's too.
    """
    folder = Path(folder)
    with changing(folder, kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        for name, data in files.items():
            change.write(name, data)
        for name in keep:
            if name not in change.manifest.files:
                change.file(name).touch()


def remove_folder(folder: str | Path) -> list[str]:
    """Remove a folder that visir made: what its manifest and its claims name, and the folder if nothing is left.

    Args:
        folder: Where it lies. What a link leads to stays, and so does the link.

    Returns:
        The files that are still there, because visir did not write them or somebody changed them since.

    Raises:
        FolderError: Another process is changing the folder, or its manifest is damaged.
    """
    folder = Path(folder)
    if folder.is_symlink() or not folder.is_dir():
        return []
    manifest = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    if manifest is not None or has_log(folder):
        with Claims.take(folder, busy=FolderError(f"{folder}: another process is changing it.")) as claims:
            ours = [] if manifest is None else [name for name in manifest.files if manifest.is_unchanged(folder, name)]
            claims.add(
                *ours, *claims.gone, MANIFEST
            )  # killed from here on, it is a folder that counts for nothing and is cleared
            remove_files(folder, [MANIFEST])
            if not claims.remove_claimed():
                claims.discard()
            with contextlib.suppress(OSError):  # something else is in it
                folder.rmdir()
    return files_below(folder) if folder.exists() else []


def recover(folder: Path, kind: FolderKind, *, busy: str | VisirError | None = None) -> None:
    """Remove what a killed change of a folder has begun; while another process changes it, `busy` is said or raised."""
    if has_log(folder):
        busy = busy or kind.error(f"{folder}: another process is changing it.")
        with changing(folder, kind, busy=busy) as change:
            change.abandon()


def counted(folder: Path, kind: FolderKind) -> frozenset[str]:
    """The names of the files that count in a folder of this kind; none where there is no folder.

    A file may lie there and not count: a killed `put` had written it. It is removed first, as the next `put` would.
    """
    recover(folder, kind, busy=f"{folder}: another process is writing there; waiting for it")
    if not (folder / MANIFEST).is_file():
        return frozenset()
    return frozenset(Manifest.read(folder, kind).files)


def remove_own_folders(change: FolderChange, below: str) -> None:
    """Remove the folders that a change has made below this name (`FolderChange.own_folder`), by their own manifests."""
    for name in change.own_folders(below):
        mode = mode_of(change.folder, name)
        if mode is None or not stat.S_ISDIR(mode):
            continue
        root, emptied = change.folder / name, []
        for path, _, files in os.walk(root, topdown=False, followlinks=False):
            if MANIFEST in files or LOG in files:
                with contextlib.suppress(VisirError):
                    remove_folder(path)
            emptied.append(f"{Path(path).relative_to(change.folder).as_posix()}/-")
        remove_files(change.folder, emptied)


def _opened(folder: Path, kind: FolderKind, make: bool, trusted: bool) -> bool:
    """Whether the folder was made now. Raises the kind's error for one that visir may not change."""
    if folder.is_dir():
        if (folder / MANIFEST).is_file() or not make:
            Manifest.read(folder, kind)
        # In this order: whoever makes the folder meanwhile has a log until there is a manifest.
        elif any(folder.iterdir()) and not is_begun(folder, trusted=trusted) and not (folder / MANIFEST).is_file():
            raise kind.error(
                f"{folder}: holds files that visir did not write{NOT_KNOWN_FILES} ({some_of(files_below(folder))}), "
                f"and no {kind.noun}.",
                hint="name a new folder",
                code="holds-files-visir-not",
            )
        return False
    if folder.exists():
        raise kind.error(f"{folder}: is a file, not a folder.", hint="name a new folder")
    if not make:
        Manifest.read(folder, kind)
    make_folder(folder)
    return True


def _recovered(folder: Path, kind: FolderKind, claims: Claims, manifest: Manifest | None) -> Manifest | None:
    """The manifest, with new records of the files that a killed change had replaced before it could say so."""
    if manifest is None:
        return None
    replaced = [name for name in manifest.files if name in claims and not manifest.is_unchanged(folder, name)]
    if not replaced:
        return manifest
    change = FolderChange(folder, kind, claims, manifest=manifest)
    records = {
        **manifest.files,
        **{name: FileRecord.of(folder / name) for name in replaced if (folder / name).is_file()},
    }
    recovered = Manifest(manifest.kind, manifest.content, records, manifest.generation, manifest.version)
    change._write_manifest(recovered)
    return recovered


def some_of(names: list[str]) -> str:
    """The first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
