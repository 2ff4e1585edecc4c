"""The only code of visir that removes files.

Every removal names its files one by one, below a folder that visir made. The names come from a manifest (`manifest.py`)
or from a log of claims (`claims.py`). A symbolic link is never followed: not as a file, not as a folder on the way to
one. What is not a plain file is left where it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.unlink in os.supports_dir_fd
"""Windows opens no folders: there a link could come between the look at a path and the removal."""

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""What the system says of a name under which nothing is, or can be."""


def remove_files(
    root: Path, names: Iterable[str], *, only: Callable[[str], bool] | None = None, links: bool = False
) -> list[str]:
    """Remove these files below `root`, and the folders that this leaves empty."""
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


def remove_empty_folders(root: Path) -> bool:
    """Remove `root` and the folders below it as far as nothing is in them, links not followed; whether `root` is
    gone."""
    # Removing an empty folder loses nothing.
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
    parts = check_name(name)
    path, mode = root, 0
    for part in parts.parts:
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
    """The path of what a manifest names in its folder. Raises `ValueError` for a name that leaves the folder."""
    return folder / check_name(str(name))


def _unlink(root: Path, parts: PurePosixPath) -> bool:
    """Remove one file; False where it cannot be, or where a link has come between since it was looked at."""
    if not _BY_DESCRIPTOR:
        if any((root / parent).is_symlink() for parent in parts.parents if parent.parts):
            return False
        try:
            (root / parts).unlink()
        except OSError:
            return False
        return True
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
