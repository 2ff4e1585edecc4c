"""What a disk refuses, as errors that name the place; and bytes that are on disk before anything counts on them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from visir.errors import DISK_REFUSALS, VisirError


@contextlib.contextmanager
def disk_faults(place: Path, error: type[VisirError], *, progress: str = "") -> Iterator[None]:
    """Raise `error` where a disk is full, read-only, or gives this user (or a file of this size) no more room."""
    try:
        yield
    except OSError as fault:
        if not progress and fault.errno not in DISK_REFUSALS:
            raise
        raise _refusal(place, error, fault, progress) from fault
    except VisirError as fault:
        cause = system_error(fault)
        if not progress or cause is None or cause.errno not in DISK_REFUSALS:
            raise
        raise _refusal(place, error, cause, progress) from cause
    except Exception as fault:
        cause = system_error(fault)
        if cause is None or cause.errno not in DISK_REFUSALS:
            raise
        raise _refusal(place, error, cause, progress) from cause


def system_error(fault: BaseException | None) -> OSError | None:
    """The error of the system behind this one; None where there is none."""
    # Libraries in Rust (safetensors, tokenizers) write the system's number only into their texts.
    if isinstance(fault, VisirError):
        return system_error(fault.__cause__)
    if fault is None or isinstance(fault, OSError):
        return fault
    written = re.search(r"\(os error (\d+)\)", str(fault))
    return OSError(int(written[1]), os.strerror(int(written[1]))) if written else None


def _refusal(place: Path, error: type[VisirError], fault: OSError, progress: str) -> VisirError:
    reason = fault.strerror or f"{fault}: is the disk full?"
    if progress:
        return error(
            f"{place}: cannot be written ({reason}); {progress}.",
            hint="make room (or mount the disk) and run the same again: it goes on from there",
            code="cannot-written",
        )
    return error(f"{place}: cannot be written ({fault.strerror}).", hint="make room, or name a place on another disk")


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


UMASK = _umask()
"""Read once: to read it means to set it, for all threads."""


def exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot (it is Linux that can)."""
    if sys.platform != "linux":
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    done: int = call(_HERE, os.fsencode(first.absolute()), _HERE, os.fsencode(second.absolute()), _EXCHANGE)
    return done == 0


_HERE, _EXCHANGE = -100, 2


# The version of a format: every file and folder that visir reads back carries one, and an unknown one is refused.


def check_version(
    version: object,
    known: int,
    path: str | Path,
    *,
    what: str,
    remedy: str,
    error: type[VisirError] = VisirError,
) -> None:
    """Raise unless a file or folder has the version that this visir reads.

    Args:
        version: The version that it carries; None where it carries none.
        known: The version that this visir reads.
        path: The file, for the message.
        what: What has this version: "result", "index".
        remedy: The next action where the file is older, or has no version: how to make it again.
        error: The class of the error.

    Raises:
        VisirError: The version is another one. For a newer one the next action is to update visir.

    Example:
        >>> check_version(3, 1, "runs/a/result.json", what="result", remedy="evaluate again")
        Traceback (most recent call last):
            ...
        visir.errors.VisirError: runs/a/result.json: written by a newer visir (result, version 3; this one reads 1).
          → update visir
    """
    if type(version) is int and version == known:
        return
    if type(version) is not int:
        raise error(f"{path}: has no version of a {what} that visir reads (this one reads {known}).", hint=remedy)
    age = "a newer" if version > known else "an older"
    raise error(
        f"{path}: written by {age} visir ({what}, version {version}; this one reads {known}).",
        hint="update visir" if version > known else remedy,
        code="written-visir-version-one",
    )
