"""What a disk refuses, as errors that name the place; bytes that are on it before anything counts on them; removal.

Only here does visir remove files. Every removal names its files one by one, below a folder that visir made; the names
come from a manifest (`manifest.py`) or from a log of claims (`claims.py`). A symbolic link is never followed: not as a
file, not as a folder on the way to one. What is not a plain file is left where it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from visir.errors import DISK_REFUSALS, VisirError


@contextlib.contextmanager
def disk_faults(place: Path, error: type[VisirError], *, progress: str = "") -> Iterator[None]:
    """Raise `error` where a disk is full, read-only, or gives this user (or a file of this size) no more room."""
    try:
        yield
    except Exception as fault:
        cause = system_error(fault)
        refused = cause is not None and cause.errno in DISK_REFUSALS
        # Where work goes on from its progress, that is said of every error of the system, and of ours over a refusal.
        if isinstance(fault, OSError):
            refused = refused or progress != ""
        elif isinstance(fault, VisirError):
            refused = refused and progress != ""
        if cause is None or not refused:
            raise
        if progress:
            raise error(
                f"{place}: cannot be written ({cause.strerror or f'{cause}: is the disk full?'}); {progress}.",
                hint="make room (or mount the disk) and run the same again: it goes on from there",
                code="cannot-written",
            ) from cause
        hint = "make room, or name a place on another disk"
        raise error(f"{place}: cannot be written ({cause.strerror}).", hint=hint) from cause


def system_error(fault: BaseException | None) -> OSError | None:
    """The error of the system behind this one; None where there is none."""
    if isinstance(fault, VisirError):
        return system_error(fault.__cause__)
    if fault is None or isinstance(fault, OSError):
        return fault
    # Libraries in Rust (safetensors, tokenizers) write the system's number only into their texts.
    written = re.search(r"\(os error (\d+)\)", str(fault))
    return OSError(int(written[1]), os.strerror(int(written[1]))) if written else None


def to_disk(path: Path) -> None:
    """Wait until the bytes are on disk: a rename that overtakes them leaves an empty file after a power cut."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return
    with contextlib.suppress(OSError) if is_folder else contextlib.nullcontext():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_mount(folder: Path) -> bool:
    """Whether something is mounted at this place (a volume of a container): it can be filled, not moved."""
    if os.path.ismount(folder):
        return True
    try:  # a folder of the same disk that is mounted in two places is seen in this list alone
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    name = os.fsencode(folder)
    return any(re.sub(rb"\\(\d{3})", lambda code: bytes([int(code[1], 8)]), line.split()[4]) == name for line in lines)


def check_writable(place: Path, error: type[VisirError]) -> None:
    """Raise `error` where this user can make nothing in a folder, or in the next one above it that is there."""
    while not place.exists() and place.parent != place:
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        raise error(
            f"{place}: cannot be written.", hint="name another place, or change its rights", code="cannot-written"
        )


def give_to_owner(path: Path, folder: Path) -> None:
    """Give a new file the owner and the rights of its folder: who may read the folder may read what is in it."""
    # Some libraries write for their user alone, and an administrator (root) writes into folders of others.
    status = folder.stat()
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a root without rights over other users' files
            os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)
    path.chmod(0o600 | status.st_mode & 0o666)


UMASK = os.umask(0)
"""Read once: to read it means to set it, for all threads."""
os.umask(UMASK)


def exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot (it is Linux that can)."""
    if sys.platform != "linux":
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchanging = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    done: int = call(here, os.fsencode(first.absolute()), here, os.fsencode(second.absolute()), exchanging)
    return done == 0


def check_version(
    version: object,
    known: int,
    path: str | Path,
    *,
    what: str,
    remedy: str,
    error: type[VisirError] = VisirError,
) -> None:
    """Raise `error` unless a file has the version that this visir knows of `what` ("result"): for a newer one with the
    advice to update visir, for an older one, or one without a version, with the `remedy`: how to make it again."""
    if type(version) is int and version == known:
        return
    if type(version) is not int:
        raise error(
            f"{path}: has no version of a {what} that visir reads (this one reads {known}).",
            hint=remedy,
            code="version-not-read",
        )
    age = "a newer" if version > known else "an older"
    raise error(
        f"{path}: written by {age} visir ({what}, version {version}; this one reads {known}).",
        hint="update visir" if version > known else remedy,
        code="written-visir-version-one",
    )


# Names below a folder, and the only code that removes files.

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.unlink in os.supports_dir_fd
"""Windows opens no folders: there a link could come between the look at a path and the removal."""
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""What the system says of a name under which nothing is, or can be."""


def remove_files(
    root: Path, names: Iterable[str], *, only: Callable[[str], bool] | None = None, links: bool = False
) -> list[str]:
    """Remove these files below `root`, and the folders that this leaves empty; the names of those that are left."""
    not_removed: list[str] = []
    parents: set[PurePosixPath] = set()
    for name in names:
        parts = PurePosixPath(name)
        mode = mode_of(root, name)
        plain = mode is not None and (stat.S_ISREG(mode) or (links and stat.S_ISLNK(mode)))
        if mode is None or (plain and (only is None or only(name)) and _unlink(root, parts)):
            parents.update(parts.parents)
        else:
            not_removed.append(name)
    for parent in sorted(parents, key=lambda parent: len(parent.parts), reverse=True):
        mode = mode_of(root, parent.as_posix()) if parent.parts else None
        if mode is not None and stat.S_ISDIR(mode):
            with contextlib.suppress(OSError):  # something else is in it
                (root / parent).rmdir()
    return not_removed


def _unlink(root: Path, parts: PurePosixPath) -> bool:
    """Remove one file; False where it cannot be, or where a link has come between since it was looked at."""
    if not _BY_DESCRIPTOR:
        linked = any((root / parent).is_symlink() for parent in parts.parents if parent.parts)
        with contextlib.suppress(OSError):
            if not linked:
                (root / parts).unlink()
        return not (linked or os.path.lexists(root / parts))
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.unlink(parts.name, dir_fd=folder)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def remove_empty_folders(root: Path) -> bool:
    """Remove `root` and the folders below it as far as nothing is in them, links not followed; whether it is gone."""
    for folder, _, _ in os.walk(root, topdown=False, followlinks=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not root.exists()


def files_below(folder: Path) -> list[str]:
    """The names of everything below a folder that is no folder, sorted, "/" between their parts. Links are names."""
    names = []
    for parent, folders, files in os.walk(folder, followlinks=False):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        names += [Path(parent, name).relative_to(folder).as_posix() for name in (*files, *links)]
    return sorted(names)


def mode_of(root: Path, name: str) -> int | None:
    """The mode of what lies at `root`/`name`, of a link itself where one is on the way; None where there is nothing."""
    path, mode = root, 0
    for part in check_name(name).parts:
        if stat.S_ISLNK(mode):
            return mode
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError as fault:
            if fault.errno in _NOTHING_THERE:
                return None
            raise
    return mode


def check_name(name: str) -> PurePosixPath:
    """The parts of a name below a folder. Raises `ValueError` for one that leaves it."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or "\0" in name:
        raise ValueError(f"{name!r} is no name below a folder")
    return parts


def below(folder: Path, name: object) -> Path:
    """The path of what a manifest names in its folder. Raises `ValueError` for a name that leaves the folder, or is
    longer than any file's."""
    parts = check_name(str(name))
    if any(len(part.encode(errors="replace")) > 255 for part in parts.parts):
        raise ValueError(f"{str(name)[:40]!r}… is too long")
    return folder / parts
