"""A log in a tar archive: unpacked into a scratch folder, within limits of size."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from visir.collections.archives import MAX_RATIO, SMALL
from visir.collections.tar_headers import TarHeaders
from visir.errors import VisirError
from visir.storage import Scratch

_HEADER = 512
"""Bytes that an archive spends on each member besides its content."""


def is_archive(path: Path) -> bool:
    """Whether this is a tar archive by its name: `.tar`, `.tar.gz`, `.tar.xz`, `.tar.bz2`, `.tgz`."""
    return path.is_file() and path.name.endswith((".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz"))


def unpacked_folder(archive: Path, scratch: Scratch) -> Path:
    """The folder in `scratch` that the members of an archive are unpacked into."""
    return scratch.path / "unpacked" / archive.name


def unpack(archive: Path, scratch: Scratch) -> Path:
    """Unpack a tar archive into `scratch` and return the folder of its members.

    An archive may unpack to `MAX_RATIO` times its own size, and to `SMALL` bytes in any case. Sizes are checked against
    the archive's own headers before anything of a member is written, so a decompression bomb does not fill the disk.

    Args:
        archive: A file for which `is_archive` holds.
        scratch: Where the members go; it is removed with everything else in it.

    Raises:
        VisirError: The archive is damaged, unpacks to more than its limit, or has a member outside of its folder.
    """
    folder = unpacked_folder(archive, scratch)
    hint = f"fetch it again and compare its size; where it breaks: tar -tf {archive.name}"
    packed = archive.stat().st_size
    size = 0
    headers = TarHeaders(brief=False)
    try:
        with tarfile.open(archive, tarinfo=headers.kind) as members:
            for member in members:
                if not (member.isfile() or member.isdir()):
                    continue  # a link is no log, and nothing would name it when the scratch folder is cleared
                size += member.size + _HEADER
                _check_size(archive, size, packed)
                if not member.isdir():
                    name = PurePosixPath(tarfile.data_filter(member, str(folder)).name)
                    scratch.file(f"unpacked/{archive.name}/{name}")
                members.extract(member, folder, filter="data")
            headers.check_end(members.offset)
    except tarfile.FilterError as fault:
        raise VisirError(
            f"{archive}: an archive that reaches out of its folder: {fault}.", hint="unpack it by hand"
        ) from fault
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as fault:
        raise VisirError(f"{archive}: no archive that can be unpacked: {_reason(fault)}.", hint=hint) from fault
    except OSError as fault:
        if fault.errno is not None:  # the disk's fault, not the archive's
            raise
        raise VisirError(f"{archive}: no archive that can be unpacked: {_reason(fault)}.", hint=hint) from fault
    return folder


def _check_size(archive: Path, size: int, packed: int) -> None:
    if size > max(SMALL, MAX_RATIO * packed):
        raise VisirError(
            f"{archive}: unpacks to {size:,} bytes or more from {packed:,}, more than {MAX_RATIO} to 1 "
            "(a decompression bomb?).",
            hint="if it is meant, unpack it by hand and name the folder",
        )


def _reason(fault: Exception) -> str:
    return (str(fault).splitlines() or ["it ends too early"])[0].rstrip(":.")
