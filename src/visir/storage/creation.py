"""What appears in one step, where the user wants it: a folder that is complete (`new_folder`), a file (`new_file`)."""

from __future__ import annotations

import contextlib
import errno
import gzip
import lzma
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from visir.errors import NO_ROOM
from visir.storage.change import FolderChange
from visir.storage.claims import check_local, is_begun, is_held
from visir.storage.disk import UMASK, check_writable, disk_faults, is_mount, to_disk
from visir.storage.folder import NOT_KNOWN_FILES, some_of
from visir.storage.manifest import LOG, MANIFEST, FolderError, FolderKind, Manifest
from visir.storage.removal import files_below
from visir.storage.scratch import NEW, OLD, PREFIX, Scratch, check_alone, sweep, take_place


@contextlib.contextmanager
def new_folder(target: str | Path, kind: FolderKind, *, replace: bool = False) -> Iterator[FolderChange]:
    """Make a folder that is complete when it appears.

    Args:
        target: A new folder, an empty one, or, with `replace`, one of this kind that visir made.
        kind: What it is.
        replace: Whether it may take the place of one that visir made. Files of others in that one stay where they are.

    Raises:
        FolderError: (or the kind's own) There is something that visir did not make, or, without `replace`, anything.
    """
    target = Path(os.path.realpath(target))
    # A folder that is there stays the folder that it is, with its rights; and what is mounted cannot be moved.
    inside = target.is_dir() and (is_mount(target) or not _held(target, kind))
    with disk_faults(target, kind.error), Scratch.inside(target) if inside else Scratch.beside(target) as scratch:
        check_new_folder(target, kind, replace=replace, scratch=scratch)
        busy = kind.error(
            f"{target}: another process is making it.", hint="wait until it is done", code="another-process-making"
        )
        check_alone(scratch, target, busy)
        (scratch.path / NEW).mkdir()
        change = FolderChange(scratch.path / NEW, kind, scratch.claims, below=f"{NEW}/")
        scratch.claims.add(f"{NEW}/{MANIFEST}")
        yield change
        if not change.committed:
            change.commit()
        (scratch.path / NEW).chmod(0o777 & ~UMASK)
        for folder, _, _ in os.walk(scratch.path / NEW):
            to_disk(Path(folder))
        check_new_folder(target, kind, replace=replace, scratch=scratch)
        try:
            take_place(scratch, target)
        except OSError as fault:
            if _is_no_room(fault) or not (scratch.path / NEW / MANIFEST).is_file() or (scratch.path / OLD).exists():
                raise  # the next writer here puts it in its place, or there is no room to keep it
            place = scratch.leave(NEW, target)
            raise kind.error(
                f"{target}: cannot be put there ({fault.strerror or fault}); all of it is in {place}.",
                hint="move it to where you want it",
                code="cannot-put",
            ) from fault


def check_place(target: str | Path) -> None:
    """Raise `FolderError` where nothing can be written: into a folder that is filled, or beside what is replaced."""
    target = Path(os.path.realpath(target))
    if target.is_dir():
        check_writable(target if is_mount(target) or not any(os.scandir(target)) else target.parent, FolderError)
    elif not (target.exists() and os.access(target, os.W_OK)):
        check_writable(target.parent, FolderError)


def check_new_folder(
    target: str | Path, kind: FolderKind, *, replace: bool = False, scratch: Scratch | None = None
) -> None:
    """Raise the kind's error unless `new_folder` may put something there: before the work rather than after it.

    Args:
        target: As of `new_folder`.
        kind: What it is to be.
        replace: As of `new_folder`.
        scratch: The caller's own, which may lie in the folder.
    """
    check_local(Path(target), kind.error)
    target = Path(os.path.realpath(target))
    if not target.exists():
        check_writable(target.parent, kind.error)
        return
    if not target.is_dir():
        raise kind.error(f"{target}: is a file, not a folder.", hint="name a new folder")
    held = _held(target, kind, scratch)
    check_writable(target.parent if held and not is_mount(target) else target, kind.error)
    if not held:
        return
    if not (target / MANIFEST).is_file() and is_begun(target):
        raise kind.error(
            f"{target}: holds what a process was killed at, or is at work on ({some_of(files_below(target))}).",
            hint="run the same again if it goes on from there; else delete the folder, or name a new one",
            code="holds-process-killed-work",
        )
    if not (target / MANIFEST).is_file():
        raise kind.error(
            f"{target}: holds files that visir did not write{NOT_KNOWN_FILES} ({some_of(files_below(target))}).",
            hint="name a new folder",
        )
    manifest = Manifest.read(target)
    current = Path(os.path.realpath("."))
    if replace and (current == target or target in current.parents):
        raise kind.error(
            f"{target}: is the folder that you are in, and would be replaced.",
            hint="cd somewhere else",
            code="folder-you-replaced",
        )
    if manifest.kind != kind.name:
        raise kind.error(
            f"{target}: is a folder of kind {manifest.kind!r}, not {kind.title}.",
            hint="name a new folder",
            code="folder-of-another-kind",
        )
    if not replace:
        raise kind.error(
            f"{target}: exists already (a folder of kind {kind.name!r}).",
            hint=kind.exists,
            code="exists-already-folder-kind",
        )
    changed = manifest.changed(target)
    if changed:
        raise kind.error(
            f"{target}: holds files that were changed since visir wrote them ({some_of(changed)}).",
            hint="move them away, or name a new folder",
            code="holds-files-changed-since",
        )


def _held(target: Path, kind: FolderKind, scratch: Scratch | None = None) -> list[str]:
    """What is in a folder, but for the scratch folder of this process; what a killed one left is cleared away first."""
    names = [entry.name for entry in os.scandir(target) if scratch is None or entry.name != scratch.path.name]
    if any(name.startswith(PREFIX) for name in names):
        if any(is_held(target / name / LOG) for name in names if name.startswith(PREFIX)):
            raise kind.error(
                f"{target}: another process is making it.", hint="wait until it is done", code="another-process-making"
            )
        sweep(target)
        names = [entry.name for entry in os.scandir(target) if scratch is None or entry.name != scratch.path.name]
    return names


@contextlib.contextmanager
def new_file(target: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """A path that becomes the file `target` in one step, when the block ends without an error.

    Args:
        target: Where the user wants the file.
        replace: Whether it may take the place of a file that is there.

    Raises:
        FolderError: There is a file already, or the disk refuses.
    """
    target = Path(target)
    check_new_file(target, replace=replace)
    with disk_faults(target, FolderError), Scratch.beside(target) as scratch:
        # In a folder of its own: some libraries write more beside it.
        path = scratch.folder("file", "*") / f"{NEW}{''.join(target.suffixes[-2:])}"
        yield path
        path.chmod(0o666 & ~UMASK)
        to_disk(path)
        if replace:
            check_new_file(target, replace=True)
        try:
            if replace:
                _replace(path, target)
            else:
                move_to_new(path, target)
            to_disk(target.parent)
        except OSError as fault:
            if _is_no_room(fault) or not path.is_file():
                raise
            place = scratch.leave(path.relative_to(scratch.path).as_posix(), target)
            raise FolderError(
                f"{target}: cannot be put there ({fault.strerror or fault}); all of it is in {place}.",
                hint="move it to where you want it",
                code="cannot-put",
            ) from fault


def _is_no_room(fault: OSError) -> bool:
    """Whether a disk is full, or no refusal of the system's: what was made is not kept beside its place."""
    return fault.errno is None or fault.errno in NO_ROOM


def _replace(path: Path, target: Path) -> None:
    """Put a file in the place of another; what is mounted there, a file of a container's host, is written over."""
    try:
        path.replace(target)
    except OSError as fault:
        if fault.errno != errno.EBUSY:
            raise
        with path.open("rb") as source, target.open("r+b") as stream:
            shutil.copyfileobj(source, stream)
            stream.truncate()
            stream.flush()
            os.fsync(stream.fileno())


def check_new_file(target: str | Path, *, replace: bool = False) -> None:
    """Raise `FolderError` unless `new_file` may put a file there: before the work rather than after it."""
    target = Path(target)
    check_local(target, FolderError)
    if target.is_symlink():
        raise FolderError(f"{target}: is a symbolic link.", hint="name the file itself")
    if target.is_dir():
        raise FolderError(f"{target}: is a folder.", hint="name a file in it")
    if target.exists() and not replace:
        raise FolderError(
            f"{target}: exists already.",
            hint="name another file, or replace it (--replace; in Python: replace=True)",
            code="exists-already",
        )
    check_writable(target.parent, FolderError)


def write_new(target: str | Path, data: bytes, *, replace: bool = False) -> None:
    """Write a whole file in a place of the user's, in one step; see `new_file`. One with these bytes may be there.

    A name that ends in `.gz` or `.xz` says how it is packed: so it is read back.
    """
    path = Path(target)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same data are the same bytes
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    with new_file(target, replace=replace) as path:
        path.write_bytes(data)


def move_to_new(path: Path, target: Path) -> None:
    """Give a file its name unless that is taken by now: a link fails where a rename would replace."""
    # Where the system has links, the file keeps its old name too; whoever made it removes that.
    try:
        os.link(path, target)
    except FileExistsError:
        check_new_file(target)
        raise
    except OSError as fault:
        if fault.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES):
            raise
        check_new_file(target)  # a file system without hard links
        path.rename(target)
