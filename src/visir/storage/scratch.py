"""What appears in one step, where the user wants it: a folder that is complete (`new_folder`), a file (`new_file`).

Until then it lies in a scratch folder: one that exists as long as its writer, and that the next writer clears away if
it was killed. It is called ".visir-NAME-1f2e3d4c" and lies beside what is being made (so that it can be renamed into
its place), or in the system's folder for temporary files. Its log of claims (`claims.py`) says what is in it. Whoever
makes the next one in the same place looks for those whose writer is dead and removes what they had claimed; files that
nobody claimed stay, and so does their folder.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import lzma
import os
import secrets
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from visir.errors import NO_ROOM, VisirError
from visir.files import digest_of
from visir.storage.claims import (
    Claims,
    check_local,
    has_log,
    hold_if_free,
    is_begun,
    is_held,
    make_folder,
    read_facts,
    release,
)
from visir.storage.disk import (
    UMASK,
    check_writable,
    disk_faults,
    exchange,
    files_below,
    is_mount,
    mode_of,
    remove_empty_folders,
    remove_files,
    to_disk,
)
from visir.storage.folder import NOT_KNOWN_FILES, FolderChange, ended, remove_folder, some_of
from visir.storage.manifest import LOG, MANIFEST, FolderError, FolderKind, Manifest, read_manifest

PREFIX = ".visir-"
PLAIN = FolderKind("plain", "a folder for other programs")
NEW, OLD = "new", "old"
_OWN = ("swap", "fill", "manifest", "making", "folders")
_REPLACED = "replaced.json"
"""The manifest of what is replaced in a folder that cannot be moved."""
_NOT_MOVED = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EINVAL, errno.EROFS)
"""What the system says of a folder that cannot be moved: a mount point, a folder of the layer below an overlay."""
_EMPTY_SECONDS = 60
"""A scratch folder without a log was made this moment, or its maker was killed before it wrote one."""
undo: dict[str, Callable[[dict[str, Any]], bool]] = {}
"""What a killed writer did outside its folder, and how it is taken back: from the name of a fact (`Scratch.note`) to a
function that takes the fact and says whether it is done. Rooms that do such things register here."""


class Scratch:
    """A scratch folder of this process, at `path`; a context. Ask `file` or `folder` for paths in it: what was not
    claimed is not removed."""

    def __init__(self, path: Path, claims: Claims) -> None:
        self.path, self.claims = path, claims
        self._end: Any = None

    @classmethod
    def beside(cls, target: Path) -> Scratch:
        """One in the folder of `target`, named after it. Folders above `target` are made."""
        check_local(target)
        make_folder(target.parent)
        return cls._made(target.parent, target.name)

    @classmethod
    def inside(cls, target: Path) -> Scratch:
        """One in the folder `target` itself."""
        return cls._made(target, target.name)

    @classmethod
    def temporary(cls, name: str) -> Scratch:
        """One in the system's folder for temporary files; `name` is what it is for."""
        return cls.beside(Path(tempfile.gettempdir(), name))

    @classmethod
    def _made(cls, parent: Path, name: str) -> Scratch:
        sweep(parent)
        short = name.encode()[:60].decode(errors="ignore")
        while True:
            path = parent / f"{PREFIX}{short}-{secrets.token_hex(4)}"
            busy = FolderError(f"{path}: is in use.")
            try:
                path.mkdir(mode=0o700)
                return cls(path, Claims.take(path, busy=busy))
            except FileExistsError:
                continue
            except VisirError as fault:
                if fault is not busy and path.is_dir():
                    raise
                # Another process saw its log before it was locked, and cleared it away: the next one has another name.
            except OSError as fault:
                raise FolderError(
                    f"{parent}: cannot be written ({fault.strerror or fault}).", hint="name another place, or make room"
                ) from fault

    def file(self, name: str) -> Path:
        """The path for a file of this name, claimed; folders above it are made."""
        self.claims.add(name)
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def folder(self, name: str, *patterns: str) -> Path:
        """A new folder in which another library writes files of these patterns, claimed."""
        self.claims.add_patterns(name, *patterns)
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def clear(self, name: str) -> None:
        """Remove what was claimed in a folder in it."""
        self.claims.remove_in(name)

    def written(self, name: str) -> Path:
        """Claim everything that another library has written into a folder in it."""
        self.claims.add(*(f"{name}/{inner}" for inner in files_below(self.path / name)))
        return self.path / name

    def made(self, pattern: str) -> Path:
        """The path for a folder (or several: "store/*/*") that visir will make in it, with a manifest of its own."""
        self.claims.note(folders=pattern)
        return self.path / pattern

    def note(self, name: str, fact: dict[str, Any]) -> None:
        """Write down something that was done elsewhere, before it is done; see `undo`."""
        self.claims.note(**{name: fact})

    def leave(self, name: str, target: Path) -> Path:
        """Keep what cannot take its place: beside `target` under a free name, or where it is; its place."""
        with contextlib.suppress(OSError):
            return aside(self.path / name, target)
        self.claims.disown()
        return self.path / name

    def close_with(self, owner: object) -> None:
        """Close it when this object is forgotten, or at the end of the process."""
        self._end = weakref.finalize(owner, _closed, self.path, self.claims)

    def close(self) -> None:
        """Remove what was claimed, and the folder if nothing else is in it."""
        if self._end is not None:
            self._end.detach()
        _closed(self.path, self.claims)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep(parent: Path) -> list[Path]:
    """Clear away scratch folders in `parent` whose writer was killed; those that hold something unknown are returned.

    What was complete and was about to take its place is put there first.
    """
    remaining = []
    try:
        entries = [Path(entry.path) for entry in os.scandir(parent) if entry.name.startswith(PREFIX)]
    except OSError:
        return []
    for path in entries:
        with contextlib.suppress(OSError):  # its writer may remove it at any moment
            if not path.is_symlink() and path.is_dir() and _is_mine(path) and not _cleared(path):
                remaining.append(path)
    for path in remaining:
        warnings.warn(
            f"{path}: left by a visir that was killed, with files that it did not name; look at them and delete the "
            "folder",
            stacklevel=4,
        )
    return remaining


def _is_mine(path: Path) -> bool:
    """Whether this user made it: in a folder for everybody's temporary files, others may have put what they like."""
    return not hasattr(os, "getuid") or path.lstat().st_uid == os.getuid()


def _cleared(path: Path) -> bool:
    """Clear one folder; False where something in it is not ours. A live writer's is left alone."""
    if not has_log(path):
        if time.time() - path.stat().st_mtime > _EMPTY_SECONDS:
            with contextlib.suppress(OSError):
                path.rmdir()  # loses nothing: it is empty, or stays
        return True
    stream = hold_if_free(path / LOG)
    if stream is None:
        return True
    try:
        claims = Claims(path, stream)
    except FolderError:  # of a newer visir, which will clear it
        release(stream)
        return True
    try:
        elsewhere = ((name, fact) for facts in claims.facts() for name, fact in facts.items() if name not in _OWN)
        if not all(name in undo and undo[name](fact) for name, fact in elsewhere):
            claims.release()
            return True  # it is cleared by somebody who knows how to take that back, later
        _finish_swap(path, claims)
        _finish_filling(path, claims)
        for folder, _, _ in os.walk(path):
            sweep(Path(folder))  # files that were written in one step, in a folder that was not finished
    except BaseException:
        claims.release()
        raise
    _closed(path, claims)
    return not path.exists()


def _closed(path: Path, claims: Claims) -> None:
    try:
        if not _is_unfinished(path, claims):
            made = [path / name for name in claims.folders]
            for pattern in [facts["folders"] for facts in claims.facts() if "folders" in facts]:
                if isinstance(pattern, str) and not {"..", ""} & {*pattern.split("/")}:
                    made += sorted(path.glob(pattern))
            for folder in made:
                with contextlib.suppress(VisirError):
                    _remove_counted(folder)
                    remove_folder(folder)
            claims.remove_claimed()
        if files_below(path) == [LOG]:
            claims.discard()
        remove_empty_folders(path)
    finally:
        claims.release()


def _is_unfinished(path: Path, claims: Claims) -> bool:
    """Whether a swap has moved something and is not done: then nothing that lies here may be removed."""
    facts = {name for entry in claims.facts() for name in entry}
    return ((path / OLD).is_dir() and "swap" in facts) or ((path / NEW / MANIFEST).is_file() and "fill" in facts)


def _remove_counted(folder: Path) -> Manifest | None:
    """Remove what counts in a folder that is to go, its manifest last: killed over it, the next one goes on."""
    manifest = read_manifest(folder)
    if manifest is not None:
        manifest.remove(folder, manifest.files)
        remove_files(folder, [MANIFEST])
    return manifest


def _check_alone(scratch: Scratch, target: Path, fault: VisirError) -> None:
    """Raise `fault` when another process is making `target` already; until the end, others are told the same."""
    for entry in os.scandir(scratch.path.parent):
        path = Path(entry.path)
        if not entry.name.startswith(PREFIX) or path == scratch.path or not is_held(path / LOG):
            continue
        if any(facts.get("making") == target.name for facts in read_facts(path)):
            raise fault
    scratch.claims.note(making=target.name)


# A folder takes its place.


def _take_place(scratch: Scratch, target: Path) -> None:
    """Put the scratch folder's `new` in the place of `target`: the folder, or, where it cannot be moved, its files."""
    # `OSError` where neither can be done.
    if scratch.path.parent != target:
        try:
            _swap(scratch, target)
            return
        except OSError as fault:
            if fault.errno not in _NOT_MOVED or not target.is_dir() or not (scratch.path / NEW).is_dir():
                raise
    scratch.claims.add(_REPLACED)
    scratch.claims.note(fill=os.path.relpath(target, scratch.path.parent))
    _finish_filling(scratch.path, scratch.claims)
    to_disk(target)


def _finish_filling(path: Path, claims: Claims) -> None:
    """Move the files of `new` into their folder, the manifest last, by which they count; or go on from a kill."""
    # What the manifest before it names is removed. What lies under a name that the new one needs gets another one.
    name = next((facts["fill"] for facts in claims.facts() if "fill" in facts), None)
    new = path / NEW
    if not isinstance(name, str) or Path(name).name != name.removeprefix(".") or not (new / MANIFEST).is_file():
        return
    target = path.parent / name
    if (target / MANIFEST).is_file() and not (path / _REPLACED).exists():
        (target / MANIFEST).rename(path / _REPLACED)  # from here to the end there is none: nothing counts
    if (path / _REPLACED).is_file():
        before = Manifest.from_bytes((path / _REPLACED).read_bytes(), str(target / MANIFEST))
        before.remove(target, before.files)
    for name in sorted(files_below(new), key=lambda name: name == MANIFEST):
        place = target / name
        for part in [target / above for above in reversed(PurePosixPath(name).parents[:-1])] + [place]:
            if part.is_symlink() or (part.exists() and (part == place or not part.is_dir())):
                other = aside(part, part, "old")
                warnings.warn(f"{other}: visir did not write it, and needed its name", stacklevel=4)
        place.parent.mkdir(parents=True, exist_ok=True)
        (new / name).rename(place)


def _swap(scratch: Scratch, target: Path) -> None:
    """Put the scratch folder's `new` in the place of the folder `target`, which visir made; it takes its rights."""
    # What visir wrote into the old folder is removed. Files and empty folders of others that were in it stay in their
    # places; where the new one has something of the same name, they go to a folder beside it, and a warning names that.
    # Killed or interrupted in between, it is the old folder or the new one that is there; the next writer in this place
    # does the rest.
    path, new, old = scratch.path, scratch.path / NEW, scratch.path / OLD
    digest = _digest(new)
    scratch.claims.note(swap=target.name, manifest=digest)
    try:
        if target.is_dir():
            status = target.stat()
            new.chmod(status.st_mode & 0o7777)
            with contextlib.suppress(OSError, AttributeError):  # the owner, as far as this user may
                os.chown(new, status.st_uid, status.st_gid)
            if exchange(new, target):
                new.rename(old)
            else:
                target.rename(old)
                try:
                    new.rename(target)
                except BaseException:
                    if not target.exists():
                        old.rename(target)
                    raise
        else:
            new.rename(target)
    except BaseException as fault:
        _finish_swap(path, scratch.claims)
        if isinstance(fault, OSError) and digest and _digest(target) == digest:
            return  # another writer has put the very same there
        raise
    to_disk(target.parent)
    _remove_old(old, target)


def _finish_swap(path: Path, claims: Claims) -> None:
    """Do the rest of a swap that was killed or interrupted, as far as it had come."""
    facts = {name: fact for entry in claims.facts() for name, fact in entry.items()}
    name, digest = facts.get("swap"), facts.get("manifest")
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
        return
    target, new, old = path.parent / name, path / NEW, path / OLD
    if _digest(target) == digest:  # it took its place
        for rest in (new, old):
            _remove_old(rest, target)
    elif _digest(new) == digest and old.is_dir():  # the old one had made room
        if target.exists():  # for somebody else
            warnings.warn(f"{target} was made meanwhile; what it was to be is {aside(new, target)}", stacklevel=4)
            warnings.warn(f"{target} was made meanwhile; what it was before is {aside(old, target)}", stacklevel=4)
        else:
            new.rename(target)
            _remove_old(old, target)


def _digest(folder: Path) -> str:
    """Of the manifest of a folder; empty where there is none."""
    try:
        return digest_of(folder / MANIFEST)[1]
    except OSError:
        return ""


def _remove_old(old: Path, target: Path) -> None:
    """Remove what visir wrote into a folder that was replaced, and put everything else into the new one."""
    if not old.is_dir():
        return
    ours = {""}
    if (manifest := _remove_counted(old)) is not None:
        ours.update(parent.as_posix() for name in manifest.files for parent in PurePosixPath(name).parents)
        remove_files(old, [LOG])
    for folder, _, files in os.walk(old):
        inner = Path(folder).relative_to(old).as_posix().removeprefix(".")
        if inner not in ours and not files:
            with contextlib.suppress(OSError):  # the new one has a file of that name
                (target / inner).mkdir(parents=True, exist_ok=True)
    for name in files_below(old):
        place = target / name
        above = [target / parent for parent in PurePosixPath(name).parents]
        if mode_of(target, name) is None and all(folder.is_dir() or not folder.exists() for folder in above):
            place.parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(place)
    if not files_below(old):
        remove_empty_folders(old)
        return
    place = aside(old, target)
    warnings.warn(f"{place}: files that visir did not write, from the folder that {target} replaced", stacklevel=4)


def aside(path: Path, target: Path, title: str = "") -> Path:
    """Rename what lies somewhere to a free name beside `target`; its new place."""
    number = 1
    while os.path.lexists(place := target.with_name(f"{target.name}.{title or path.name}-{number}")):
        number += 1
    path.rename(place)
    return place


# A new folder.


@contextlib.contextmanager
def new_folder(target: str | Path, kind: FolderKind, *, replace: bool = False) -> Iterator[FolderChange]:
    """Make a folder that is complete when it appears: a new one, or in an empty one, or, with `replace`, in the place
    of one of this kind that visir made; files of others in that stay where they are. The kind's error is raised where
    there is anything else."""
    target = Path(os.path.realpath(target))
    # A folder that is there stays the folder that it is, with its rights; and what is mounted cannot be moved.
    inside = target.is_dir() and (is_mount(target) or not _held(target, kind))
    with disk_faults(target, kind.error), Scratch.inside(target) if inside else Scratch.beside(target) as scratch:
        check_new_folder(target, kind, replace=replace, scratch=scratch)
        busy = _busy(target, kind)
        _check_alone(scratch, target, busy)
        new = scratch.path / NEW
        scratch.claims.add_folder(NEW)
        new.mkdir()
        with Claims.take(new, busy=busy) as claims:
            change = FolderChange(new, kind, claims, notes=scratch.claims)
            with ended(change, claims):
                yield change
        new.chmod(0o777 & ~UMASK)
        for folder, _, _ in os.walk(new):
            to_disk(Path(folder))
        check_new_folder(target, kind, replace=replace, scratch=scratch)
        try:
            _take_place(scratch, target)
        except OSError as fault:
            if _is_no_room(fault) or not (new / MANIFEST).is_file() or (scratch.path / OLD).exists():
                raise  # the next writer here puts it in its place, or there is no room to keep it
            raise _cannot_put(target, fault, scratch.leave(NEW, target), kind.error) from fault


def check_new_folder(
    target: str | Path, kind: FolderKind, *, replace: bool = False, scratch: Scratch | None = None
) -> None:
    """Raise the kind's error unless `new_folder` may put something there: before the work rather than after it."""
    # The scratch folder of the caller may lie there.
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
    if changed := manifest.changed(target):
        raise kind.error(
            f"{target}: holds files that were changed since visir wrote them ({some_of(changed)}).",
            hint="move them away, or name a new folder",
            code="holds-files-changed-since",
        )


def _busy(target: Path, kind: FolderKind) -> VisirError:
    return kind.error(
        f"{target}: another process is making it.", hint="wait until it is done", code="another-process-making"
    )


def _held(target: Path, kind: FolderKind, scratch: Scratch | None = None) -> list[str]:
    """What is in a folder, but for the scratch folder of this process; what a killed one left is cleared away first."""

    def there() -> list[str]:
        return [entry.name for entry in os.scandir(target) if scratch is None or entry.name != scratch.path.name]

    left = [name for name in there() if name.startswith(PREFIX)]
    if any(is_held(target / name / LOG) for name in left):
        raise _busy(target, kind)
    if left:
        sweep(target)
    return there()


def check_place(target: str | Path) -> None:
    """Raise `FolderError` where nothing can be written: into a folder that is filled, or beside what is replaced."""
    target = Path(os.path.realpath(target))
    if target.is_dir():
        check_writable(target if is_mount(target) or not any(os.scandir(target)) else target.parent, FolderError)
    elif not (target.exists() and os.access(target, os.W_OK)):
        check_writable(target.parent, FolderError)


@contextlib.contextmanager
def new_plain_folder(target: str | Path) -> Iterator[Path]:
    """A path that becomes the folder `target`, a new one or one that is empty, in one step when the block ends: for
    folders that others read, without a manifest. Nothing is ever replaced."""
    target = Path(os.path.realpath(target))
    check_new_folder(target, PLAIN)
    with disk_faults(target, FolderError), Scratch.beside(target) as scratch:
        path = scratch.folder(NEW, "**/*")
        yield path
        for folder, _, files in os.walk(path):
            for place in (Path(folder), *(Path(folder, name) for name in files)):
                place.chmod((0o777 if place.is_dir() else 0o666) & ~UMASK)
                to_disk(place)
        try:
            path.rename(target)
        except OSError:
            check_new_folder(target, PLAIN)  # what came there meanwhile stays
            raise


# A new file.


@contextlib.contextmanager
def new_file(target: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """A path that becomes the file `target` in one step, when the block ends without an error; with `replace`, in the
    place of one that is there."""
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
            (_replace if replace else move_to_new)(path, target)
            to_disk(target.parent)
        except OSError as fault:
            if _is_no_room(fault) or not path.is_file():
                raise
            place = scratch.leave(path.relative_to(scratch.path).as_posix(), target)
            raise _cannot_put(target, fault, place, FolderError) from fault


def _cannot_put(target: Path, fault: OSError, place: Path, error: type[VisirError]) -> VisirError:
    return error(
        f"{target}: cannot be put there ({fault.strerror or fault}); all of it is in {place}.",
        hint="move it to where you want it",
        code="cannot-put",
    )


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


def check_new_file(target: str | Path, *, replace: bool = False) -> None:
    """Raise `FolderError` unless `new_file` may put a file there: before the work rather than after it."""
    target = Path(target)
    check_local(target, FolderError)
    if target.is_symlink():
        raise FolderError(f"{target}: is a symbolic link.", hint="name the file itself")
    if target.is_dir():
        raise FolderError(f"{target}: is a folder.", hint="name a file in it", code="is-a-folder")
    if target.exists() and not replace:
        raise FolderError(
            f"{target}: exists already.",
            hint="name another file, or replace it (--replace; in Python: replace=True)",
            code="exists-already",
        )
    check_writable(target.parent, FolderError)


def write_new(target: str | Path, data: bytes, *, replace: bool = False) -> None:
    """Write a whole file in a place of the user's, in one step, packed as its name says (`.gz`, `.xz`); see `new_file`.
    One with these bytes may be there."""
    path = Path(target)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same data are the same bytes
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    with new_file(target, replace=replace) as path:
        path.write_bytes(data)
