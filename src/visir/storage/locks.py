"""One writer at a time: a lock that the operating system takes back when its holder dies.

The lock belongs to the open file, not to its existence: a killed holder leaves no lock behind. The empty file stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from visir.errors import VisirError

_POLL_SECONDS = 0.1
_QUIET_SECONDS = 1.0
"""Nothing is said of a shorter wait: threads of one process write one after the other, too."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_FAR = 1 << 40
"""Windows locks bytes, and nobody else can read those: one far behind the end of every file."""


@contextlib.contextmanager
def locked(path: Path, *, waiting: str, elsewhere: str = "VISIR_CACHE=FOLDER") -> Iterator[None]:
    """Hold an exclusive lock on the file `path`, waiting for it if need be.

    Args:
        path: The file; it is made if there is none.
        waiting: Said on standard error when another process holds the lock.
        elsewhere: How to name another place, for the error where nothing can be written.
    """
    make_folder(path.parent, elsewhere=elsewhere)
    stream = hold(path, waiting, elsewhere=elsewhere)
    try:
        yield
    finally:
        release(stream)


@contextlib.contextmanager
def locked_or(path: Path, fault: VisirError) -> Iterator[None]:
    """Hold the lock on `path` as `locked` does, but raise `fault` instead of waiting for another process."""
    make_folder(path.parent)
    stream = hold(path, fault)
    try:
        yield
    finally:
        release(stream)


def make_folder(folder: Path, *, elsewhere: str = "") -> None:
    """Make a folder and those above it; one that is there is left as it is."""
    check_local(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise VisirError(
            f"{folder}: cannot be made ({fault.strerror}).",
            hint=f"name a place on a local disk that can be written{f': {elsewhere}' if elsewhere else ''}",
            code="cannot-made",
        ) from fault


def check_local(path: Path, error: type[VisirError] = VisirError) -> None:
    """Raise an error for an address: `s3://bucket/x`, taken as a path, is a folder `s3:` here, which nobody means."""
    for folder in path.parents:
        if _SCHEME.fullmatch(folder.name) and not folder.exists():
            raise error(
                f"{folder.name}//{path.relative_to(folder)}: an address; this is written to a local disk alone.",
                hint="name a local folder, and copy what is in it there afterwards",
                code="an-address",
            )


def hold(path: Path, busy: str | VisirError, *, elsewhere: str = "") -> IO[bytes]:
    """The locked file. While another process holds it: wait, and after a second say `busy` once; or raise it."""
    stream: IO[bytes] | None = None
    try:
        stream = _opened(path, os.O_CREAT)
        started, announced = time.monotonic(), False
        while not _try(stream):
            if isinstance(busy, VisirError):
                raise busy
            if not announced and time.monotonic() - started > _QUIET_SECONDS:
                print(f"visir: {busy}", file=sys.stderr)  # noqa: T201
                announced = True
            time.sleep(_POLL_SECONDS)
    except OSError as fault:
        if stream is not None:
            stream.close()
        raise VisirError(
            f"{path}: cannot be written or locked ({fault.strerror}).",
            hint=f"name a place on a local disk that can be written{f': {elsewhere}' if elsewhere else ''}",
        ) from fault
    except BaseException:
        if stream is not None:
            stream.close()
        raise
    return stream


def hold_if_free(path: Path) -> IO[bytes] | None:
    """The locked file, if it is there and nobody holds it; else None. Nothing is made."""
    try:
        stream = _opened(path)
    except OSError:
        return None
    try:
        if _try(stream):
            return stream
    except OSError:  # a file system without locks: nobody can tell
        pass
    stream.close()
    return None


def _opened(path: Path, flags: int = 0) -> IO[bytes]:
    """A plain file, opened to be read and written at any place; `OSError` for a link, a pipe or a device."""
    flags |= os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    return os.fdopen(descriptor, "r+b", buffering=0)


def release(stream: IO[bytes]) -> None:
    """Give the lock back and close the file."""
    if not stream.closed:
        with contextlib.suppress(OSError):
            _release(stream)
        stream.close()


if sys.platform == "win32":
    import msvcrt

    def _try(stream: IO[bytes]) -> bool:
        stream.seek(_FAR)
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(stream: IO[bytes]) -> None:
        stream.seek(_FAR)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try(stream: IO[bytes]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(stream: IO[bytes]) -> None:
        fcntl.flock(stream, fcntl.LOCK_UN)


def is_held(path: Path) -> bool:
    """Whether another process (or thread) holds the lock on `path`."""
    stream = hold_if_free(path)
    if stream is None:
        return path.is_file() and os.access(path, os.W_OK)
    release(stream)
    return False
