"""A log in a tar archive: unpacked into a scratch folder, within limits of size."""

from __future__ import annotations

import errno
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from visir.collections.archives import SMALL
from visir.collections.readers.names import escaped
from visir.collections.stream_sources import MAX_RATIO
from visir.collections.tar_headers import TAR_FAULTS, TARS, TarHeaders, remedy_of
from visir.collections.tar_notes import END_REMEDY, GOES_ON, LINKS_REMEDY
from visir.display import counted
from visir.errors import VisirError
from visir.storage import Scratch
from visir.terminal import one_line

_NAME_FAULTS = (errno.ENAMETOOLONG, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EINVAL, errno.ELOOP)
"""What the system says of a name that no file can have, or that another member has taken."""
_HEADER = 512
"""Bytes that an archive spends on each member besides its content."""
_SHOWN = 100
"""Letters of a member's name in an error."""


@dataclass(frozen=True)
class UnpackedLog:
    """What an archive was unpacked to."""

    folder: Path  # the folder of its members
    links: tuple[str, ...]  # the names of its links, hard and symbolic, which are not unpacked


def is_archive(path: Path) -> bool:
    """Whether this is a tar archive by its name: `.tar`, `.tar.gz`, `.tar.xz`, `.tar.bz2`, `.tgz`."""
    return path.is_file() and path.name.endswith(TARS)


def unpack(archive: Path, scratch: Scratch) -> UnpackedLog:
    """Unpack a tar archive into a folder of its own in `scratch`."""
    # An archive may unpack to `MAX_RATIO` times its own size, and to `SMALL` bytes in any case. Sizes are checked
    # against the archive's own headers before anything of a member is written, so a decompression bomb does not fill
    # the disk.
    folder = _new_folder(archive, scratch)
    hint = f"fetch it again and compare its size; where it breaks: tar -tf {archive.name}"
    packed = archive.stat().st_size
    size = 0
    headers, links = TarHeaders(brief=False), list[str]()
    try:
        with archive.open("rb") as stream, headers.open(stream) as members:
            for member in members:
                if member.issym() or member.islnk():  # its log is elsewhere in the archive, or not in it
                    links.append(escaped(member.name))
                if not (member.isfile() or member.isdir()):
                    continue  # nothing would name it when the scratch folder is cleared
                size += member.size + _HEADER
                _check_size(archive, size, packed)
                with _named(archive, member.name):
                    if member.isfile() and escaped(member.name) != member.name:  # no text: no log of claims can hold it
                        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ))
                    if not member.isdir():
                        name = PurePosixPath(tarfile.data_filter(member, str(folder)).name)
                        if (folder / name).is_dir():  # such a claim would keep the folder for ever
                            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                        scratch.file(f"unpacked/{folder.parent.name}/{archive.name}/{name}")
                    members.extract(member, folder, filter="data")
            goes_on = headers.check_end(members)
    except tarfile.FilterError as fault:
        raise VisirError(
            f"{archive}: an archive that reaches out of its folder: {fault}.", hint="unpack it by hand"
        ) from fault
    except TAR_FAULTS as fault:
        if isinstance(fault, OSError) and fault.errno is not None:  # the disk's fault, not the archive's
            raise
        raise VisirError(
            f"{archive}: no archive that can be unpacked: {_reason(fault)}.", hint=remedy_of(fault, hint)
        ) from fault
    if goes_on:
        raise VisirError(f"{archive}: {GOES_ON}.", hint=END_REMEDY, code="goes-behind-mark-end")
    if not folder.is_dir():
        only = f" but {counted(len(links), 'links')}" if links else ""
        raise VisirError(
            f"{archive}: no file in it{only}.",
            hint=LINKS_REMEDY if links else "is it the right archive?",
            code="visir-no-file",
        )
    return UnpackedLog(folder, tuple(links))


@contextmanager
def _named(archive: Path, name: str) -> Iterator[None]:
    """Errors of the disk that are faults of a member's name as an error of the archive."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in _NAME_FAULTS:
            raise
        shown = one_line(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
        raise VisirError(
            f"{archive}: its member {shown} cannot be unpacked: {os.strerror(fault.errno)}.",
            hint="no file can have this name here, or another member has it: unpack it by hand under another name",
            code="member-cannot-unpacked",
        ) from fault


def _new_folder(archive: Path, scratch: Scratch) -> Path:
    """A folder that no other archive of this name has."""
    number = 1
    while (scratch.path / "unpacked" / str(number) / archive.name).exists():
        number += 1
    return scratch.path / "unpacked" / str(number) / archive.name


def _check_size(archive: Path, size: int, packed: int) -> None:
    if size > max(SMALL, MAX_RATIO * packed):
        raise VisirError(
            f"{archive}: unpacks to {size:,} bytes or more from {packed:,}, more than {MAX_RATIO} to 1 "
            "(a decompression bomb?).",
            hint="if it is meant, unpack it by hand and name the folder",
            code="unpacks-bytes-more-more",
        )


def _reason(fault: Exception) -> str:
    return (str(fault).splitlines() or ["it ends too early"])[0].rstrip(":.")
