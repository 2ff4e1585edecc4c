"""One writer at a time: a lock that the operating system takes back when its holder dies."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from visir.errors import VisirError

_POLL_SECONDS = 0.1


@contextlib.contextmanager
def locked(path: Path, *, waiting: str, elsewhere: str = "VISIR_CACHE=FOLDER") -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; `waiting` is said on standard error when another process holds it.

    `elsewhere` is how to name another place, for the error that is raised where nothing can be written.

    The lock belongs to the open file, not to its existence: a killed holder leaves no lock behind. The empty file
    stays.
    """
    stream = _taken(path, waiting, f": {elsewhere}" if elsewhere else "")
    try:
        yield
    finally:
        _release(stream)
        stream.close()


@contextlib.contextmanager
def locked_or(path: Path, fault: VisirError) -> Iterator[None]:
    """Hold the lock on `path` as `locked` does, but raise `fault` instead of waiting for another process."""
    stream = _taken(path, fault, "")
    try:
        yield
    finally:
        _release(stream)
        stream.close()


def _taken(path: Path, otherwise: str | VisirError, elsewhere: str) -> IO[bytes]:
    """The locked file. While another process holds it: say `otherwise` once and wait, or raise it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b")
        said = False
        while not _try(stream):
            if isinstance(otherwise, VisirError):
                stream.close()
                raise otherwise
            if not said:
                print(f"visir: {otherwise}", file=sys.stderr)  # noqa: T201
                said = True
            time.sleep(_POLL_SECONDS)
    except OSError as fault:
        raise VisirError(
            f"{path}: cannot be written or locked ({fault.strerror}).",
            hint=f"name a place on a local disk that can be written{elsewhere}",
        ) from fault
    return stream


if sys.platform == "win32":
    import msvcrt

    def _try(stream: IO[bytes]) -> bool:
        stream.seek(0)
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(stream: IO[bytes]) -> None:
        stream.seek(0)
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
