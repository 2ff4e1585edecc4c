"""Unfinished work: a folder that exists as long as its writer, and that the next writer clears away if it was killed.

A scratch folder is called ".visir-NAME-1f2e3d4c" and lies beside what is being made (so that it can be renamed into its
place), or in the system's folder for temporary files. Its log of claims (`claims.py`) says what is in it. Whoever makes
the next one in the same place looks for those whose writer is dead and removes what they had claimed; files that nobody
claimed stay, and so does their folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from visir.errors import VisirError
from visir.files import digest_of
from visir.storage.claims import Claims, check_local, has_log, hold_if_free, is_held, make_folder, read_facts, release
from visir.storage.disk import exchange, to_disk
from visir.storage.folder import remove_folder
from visir.storage.manifest import LOG, MANIFEST, FolderError, Manifest, read_manifest
from visir.storage.removal import files_below, mode_of, remove_empty_folders, remove_files

PREFIX = ".visir-"
_EMPTY_SECONDS = 60
"""A scratch folder without a log was made this moment, or its maker was killed before it wrote one."""
undo: dict[str, Callable[[dict[str, Any]], bool]] = {}
"""What a killed writer did outside its folder, and how it is taken back: from the name of a fact (`Scratch.note`) to a
function that takes the fact and says whether it is done. Rooms that do such things register here."""


class Scratch:
    """A scratch folder of this process. Use it as a context, or `close` it.

    Attributes:
        path: The folder. Ask `file` or `folder` for paths in it: what was not claimed is not removed.
    """

    def __init__(self, path: Path, claims: Claims) -> None:
        self.path = path
        self.claims = claims
        self._end: Any = None

    @classmethod
    def beside(cls, target: Path) -> Scratch:
        """One in the folder of `target`, named after it. Folders above `target` are made."""
        parent = target.parent
        check_local(target)
        make_folder(parent)
        sweep(parent)
        return cls._made(parent, target.name)

    @classmethod
    def inside(cls, target: Path) -> Scratch:
        """One in the folder `target` itself."""
        sweep(target)
        return cls._made(target, target.name)

    @classmethod
    def temporary(cls, name: str) -> Scratch:
        """One in the system's folder for temporary files; `name` is what it is for."""
        return cls.beside(Path(tempfile.gettempdir(), name))

    def close_with(self, owner: object) -> None:
        """Close it when this object is forgotten, or at the end of the process."""
        self._end = weakref.finalize(owner, _closed, self.path, self.claims)

    def made(self, pattern: str) -> Path:
        """The path for a folder (or several: "store/*/*") that visir will make in it, with a manifest of its own."""
        self.claims.note(folders=pattern)
        return self.path / pattern

    @classmethod
    def _made(cls, parent: Path, name: str) -> Scratch:
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
        inside = [f"{name}/{inner}" for inner in files_below(self.path / name)]
        remove_files(self.path, [name for name in inside if name in self.claims])

    def written(self, name: str) -> Path:
        """Claim everything that another library has written into a folder in it."""
        self.claims.add(*(f"{name}/{inner}" for inner in files_below(self.path / name)))
        return self.path / name

    def note(self, name: str, fact: dict[str, Any]) -> None:
        """Write down something that was done elsewhere, before it is done; see `undo`."""
        self.claims.note(**{name: fact})

    def leave(self, name: str, target: Path) -> Path:
        """Keep what cannot take its place: beside `target` under a free name, or where it is; its place."""
        with contextlib.suppress(OSError):
            return _aside(self.path / name, target)
        self.claims.discard()  # nothing here is anybody's to remove
        return self.path / name

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
            stacklevel=3,
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
        if not _undone(claims):
            return True  # by somebody who knows how, later
        finish_swap(path, claims)
        finish_filling(path, claims)
        for folder, _, _ in os.walk(path):
            sweep(Path(folder))  # files that were written in one step, in a folder that was not finished
    except BaseException:
        claims.release()
        raise
    _closed(path, claims)
    return not path.exists()


def _undone(claims: Claims) -> bool:
    """Take back what a killed writer did elsewhere; whether all of it is done."""
    for facts in claims.facts():
        for name, fact in facts.items():
            if name not in _OWN and not (name in undo and undo[name](fact)):
                return False
    return True


def check_alone(scratch: Scratch, target: Path, fault: VisirError) -> None:
    """Raise `fault` when another process is making `target` already; until the end, others are told the same."""
    for entry in os.scandir(scratch.path.parent):
        path = Path(entry.path)
        if not entry.name.startswith(PREFIX) or path == scratch.path or not is_held(path / LOG):
            continue
        if any(facts.get("making") == target.name for facts in read_facts(path)):
            raise fault
    scratch.claims.note(making=target.name)


def _closed(path: Path, claims: Claims) -> None:
    try:
        for facts in claims.facts():
            pattern = facts.get("folders")
            for folder in sorted(path.glob(pattern)) if _is_below(pattern) else []:
                with contextlib.suppress(VisirError):
                    remove_folder(folder)
        if not _is_unfinished(path, claims):
            claims.remove_claimed()
        if files_below(path) == [LOG]:
            claims.discard()
        remove_empty_folders(path)
    finally:
        claims.release()


def _is_below(pattern: Any) -> TypeGuard[str]:
    """Whether a fact names something below a scratch folder."""
    return isinstance(pattern, str) and pattern != "" and not {"..", ""} & set(pattern.split("/"))


NEW, OLD = "new", "old"
_OWN = ("swap", "fill", "manifest", "making", "folders")
_REPLACED = "replaced.json"
"""The manifest of what is replaced in a folder that cannot be moved."""
_NOT_MOVED = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EINVAL, errno.EROFS)
"""What the system says of a folder that cannot be moved: a mount point, a folder of the layer below an overlay."""


def take_place(scratch: Scratch, target: Path) -> None:
    """Put the scratch folder's `new` in the place of `target`: the folder, or, where it cannot be moved, its files."""
    # `OSError` where neither can be done.
    if scratch.path.parent != target:
        try:
            swap(scratch, target)
            return
        except OSError as fault:
            if fault.errno not in _NOT_MOVED or not target.is_dir() or not (scratch.path / NEW).is_dir():
                raise
    scratch.claims.add(_REPLACED)
    scratch.claims.note(fill=os.path.relpath(target, scratch.path.parent))
    finish_filling(scratch.path, scratch.claims)
    to_disk(target)


def finish_filling(path: Path, claims: Claims) -> None:
    """Move the files of `new` into their folder, the manifest last, by which they count; go on from where a kill
    was."""
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
                other = _aside(part, part, "old")
                warnings.warn(f"{other}: visir did not write it, and needed its name", stacklevel=4)
        place.parent.mkdir(parents=True, exist_ok=True)
        (new / name).rename(place)


def swap(scratch: Scratch, target: Path) -> None:
    """Put the scratch folder's `new` in the place of the folder `target`, which visir made; it takes its rights."""
    # What visir wrote into the old folder is removed. Files and empty folders of others that were in it stay in their
    # places; where the new one has something of the same name, they go to a folder beside it, and a warning names that.
    # Killed or interrupted in between, it is the old folder or the new one that is there; the next writer in this place
    # does the rest.
    path, new, old = scratch.path, scratch.path / NEW, scratch.path / OLD
    scratch.claims.note(swap=target.name, manifest=_digest(new))
    try:
        if target.is_dir():
            _take_rights(new, target)
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
    except BaseException:
        finish_swap(path, scratch.claims)
        raise
    to_disk(target.parent)
    _remove_old(path / OLD, target)


def finish_swap(path: Path, claims: Claims) -> None:
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
            warnings.warn(f"{target} was made meanwhile; what it was to be is {_aside(new, target)}", stacklevel=4)
            warnings.warn(f"{target} was made meanwhile; what it was before is {_aside(old, target)}", stacklevel=4)
        else:
            new.rename(target)
            _remove_old(old, target)


def _is_unfinished(path: Path, claims: Claims) -> bool:
    """Whether a swap has moved something and is not done: then nothing that lies here may be removed."""
    facts = {name for entry in claims.facts() for name in entry}
    return ((path / OLD).is_dir() and "swap" in facts) or ((path / NEW / MANIFEST).is_file() and "fill" in facts)


def _digest(folder: Path) -> str:
    """Of the manifest of a folder; empty where there is none."""
    try:
        return digest_of(folder / MANIFEST)[1]
    except OSError:
        return ""


def _take_rights(new: Path, target: Path) -> None:
    """The rights of a folder, and its owner as far as this user may, for the one that takes its place."""
    status = target.stat()
    new.chmod(status.st_mode & 0o7777)
    with contextlib.suppress(OSError, AttributeError):
        os.chown(new, status.st_uid, status.st_gid)


def _remove_old(old: Path, target: Path) -> None:
    """Remove what visir wrote into a folder that was replaced, and put everything else into the new one."""
    if not old.is_dir():
        return
    manifest = read_manifest(old)
    ours = {""}
    if manifest is not None:
        ours.update(parent.as_posix() for name in manifest.files for parent in PurePosixPath(name).parents)
        manifest.remove(old, manifest.files)
        remove_files(old, [MANIFEST, LOG])
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
    place = _aside(old, target)
    warnings.warn(f"{place}: files that visir did not write, from the folder that {target} replaced", stacklevel=4)


def _aside(folder: Path, target: Path, title: str = "") -> Path:
    """Rename a folder to a free name beside `target`; its new place."""
    number = 1
    while os.path.lexists(place := target.with_name(f"{target.name}.{title or folder.name}-{number}")):
        number += 1
    folder.rename(place)
    return place
