"""The headers of a tar, and whether the last thing read as one is the mark of its end."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, Self, cast

from visir.display import counted
from visir.errors import CollectionError, VisirError
from visir.remote import is_url
from visir.terminal import one_line

MAX_RATIO = 200
"""How many times its packed size what is unpacked may be, unless it is small: deflate packs nothing better than 1,032
to 1, and a picture, which is packed already, hardly at all; a text that repeats itself 10 to 50 to 1."""
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""What the names of tars end in, compressed or not."""
TAR_FAULTS = (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error)
"""What a tar that is cut or damaged raises when it is read; an `OSError` may be the fault of the disk."""
PIECE = 2**20
"""Bytes read at once behind the mark of a tar's end. Programs fill up with zeros: usually to 10 kB, or to any size."""
PADDING = 2**26
"""Bytes behind the mark of a tar's end that are read in any case: far more than any blocking factor fills up."""
TOO_MUCH = f"more than {PADDING:,} bytes, packed more than {MAX_RATIO} to 1, follow the mark of its end"
TOO_MUCH_REMEDY = "if it is meant, unpack it by hand with tar --ignore-zeros, and pack it again"
NO_END = "the mark of its end is missing"
NO_END_REMEDY = "copy it again; to a tar that was written without the mark, truncate -s +1024 FILE.tar adds it"
_OCTAL = b"01234567"
_BLANK = 8 * ord(" ")
"""What a tar's checksum counts in its own place."""


class TarHeaders:
    """Reads the headers of one tar, and remembers the last: `tarfile` takes one that is cut or damaged for the end."""

    # A tar is whole when a block of 512 zeros stands where a header would be. A second one, which the format asks for,
    # is not needed: GNU tar, too, reads a tar with one. Without any, a tar cannot be told from one that was cut between
    # two members, and counts as truncated.

    def __init__(self, *, brief: bool = True) -> None:
        self._last: bytes | bytearray = b""
        self._packed: IO[bytes] | None = None
        headers = self

        class Header(tarfile.TarInfo):
            @classmethod
            def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
                headers._last = buf
                size, checksum = buf[124:135], buf[148:154]
                is_plain = brief and len(buf) == tarfile.BLOCKSIZE
                is_plain = is_plain and buf[156:157] == tarfile.REGTYPE and buf[257:262] == b"ustar"
                is_plain = is_plain and not buf[345] and not (size + checksum).strip(_OCTAL) and buf[135] in b"\0 "
                if is_plain and int(checksum, 8) == sum(buf) - sum(buf[148:156]) + _BLANK:
                    # What nearly every header of a picture is; `tarfile` takes five times as long to read it.
                    header = cls(buf[:100].partition(b"\0")[0].decode(encoding, errors))
                    header.size = int(size, 8)
                    return header
                return super().frombuf(buf, encoding, errors)

        self.kind: type[tarfile.TarInfo] = Header
        """What `tarfile.open` takes as `tarinfo`."""

    def open(self, stream: IO[bytes]) -> tarfile.TarFile:
        """The tar in a stream, compressed or not, whose members are read once, from the first to the last."""
        opened = decompressed(stream)
        self._packed = None if opened is stream else stream
        return tarfile.open(fileobj=opened, mode="r|", tarinfo=self.kind)

    def check_end(self, tar: tarfile.TarFile) -> bool:
        """Whether there is more than zeros behind the mark of the end of a tar, all of whose members were read."""
        # A compressed stream (`open`) is read to its end, also where there is more: its checksum is there, which tells
        # of damage to the members before it. Any other tar is read as far as there are zeros, and up to `PADDING`:
        # further zeros count as more.
        if len(self._last) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError(NO_END)
        if self._last.strip(b"\0"):
            raise tarfile.ReadError(f"the header at byte {tar.offset:,} is damaged")
        behind: Any = tar.fileobj
        packed, start = self._packed, self._packed.tell() if self._packed else 0
        size, goes_on = 0, False
        while (packed or not goes_on) and (piece := behind.read(PIECE)):
            size += len(piece)
            goes_on = goes_on or bool(piece.strip(b"\0")) or (not packed and size > PADDING)
            if packed and size > PADDING + MAX_RATIO * (packed.tell() - start):
                raise tarfile.ReadError(TOO_MUCH)
        return goes_on


def remedy_of(fault: Exception, otherwise: str = "copy it again") -> str:
    """What to do about a tar that is cut or damaged."""
    return {NO_END: NO_END_REMEDY, TOO_MUCH: TOO_MUCH_REMEDY}.get(str(fault), otherwise)


# What is said of the members of tars that are not read: links, and what stands behind the mark of the end.


LINKS_REMEDY = "pack the files themselves: tar --dereference --hard-dereference"
END_REMEDY = "as of tars joined by cat: unpack it with tar --ignore-zeros, and pack it again"

GOES_ON = "goes on behind the mark of its end, where it is not read"
"""Why a tar is refused that is read whole or not at all."""
_LINKS, _BEHIND = "in tars passed over", "with more behind the mark of the end, not read"


def tar_notes(links: Sequence[str], going_on: Sequence[str]) -> list[str]:
    """The notes of a source."""
    notes = []
    if links:
        notes.append(f"{counted(len(links), 'links')} {_LINKS}, e.g. {one_line(links[0])} ({LINKS_REMEDY})")
    if going_on:
        tars = counted(len(going_on), "tars")
        notes.append(f"{tars} {_BEHIND}, e.g. {one_line(going_on[0])} ({END_REMEDY})")
    return notes


def tar_notes_in(source: str) -> list[str]:
    """Those of these notes that the `source` of a record has."""
    return [note for note in source.split("; ") if _LINKS in note or _BEHIND in note]


# A file that is streamed: what it holds when it is compressed, and whether its disk or its content is at fault.

COPY = "copy the file again"


class Source:
    """A stream that remembers why it could not be read: all else that goes wrong is the fault of its content."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1) -> bytes:
        """As of the stream."""
        try:
            return self._stream.read(size)
        except Exception as fault:
            self.fault = fault
            raise


@contextlib.contextmanager
def content_faults(place: str, source: Source) -> Iterator[None]:
    """Whatever a reader raises over the content of a file is a `CollectionError` that names the file."""
    try:
        yield
    except (VisirError, MemoryError):
        raise
    except Exception as fault:  # on bytes that are none of theirs readers raise whatever they like
        if source.fault is None:
            raise CollectionError(
                f"{place}: damaged or truncated ({fault}).", hint=COPY, code="damaged-truncated"
            ) from fault
        if is_url(place) or not isinstance(source.fault, OSError):
            raise
        raise CollectionError(
            f"{place}: cannot be read ({source.fault.strerror}).",
            hint="check the disk; or copy the file again",
            code="cannot-read",
        ) from fault


def decompressed(stream: IO[bytes]) -> IO[bytes]:
    """What a compressed tar holds, whatever its name. `tarfile` itself stops at the first of several streams."""
    # pbzip2, lbzip2 and bgzip write them, and whoever puts one compressed file behind the other.
    start = stream.read(6)
    stream.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(stream))
    if start.startswith(b"BZh"):
        return bz2.open(stream)
    if start.startswith((b"\xfd7zXZ", b"\x5d\0\0\x80")):
        return lzma.open(stream)
    return stream
