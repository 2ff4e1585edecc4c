"""What a disk refuses, as errors that name the place."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from visir.errors import VisirError

_REFUSALS = {
    number for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS") if (number := getattr(errno, name, None)) is not None
}


@contextlib.contextmanager
def disk_faults(place: Path, error: type[VisirError]) -> Iterator[None]:
    """Raise `error` where a disk is full, read-only, or gives this user (or a file of this size) no more room.

    Args:
        place: What is being written; the error names it where the system names no file.
        error: What to raise.
    """
    try:
        yield
    except OSError as fault:
        if fault.errno not in _REFUSALS:
            raise
        raise error(
            f"{fault.filename or place}: cannot be written ({fault.strerror}).",
            hint="make room, or name a place on another disk",
        ) from fault
