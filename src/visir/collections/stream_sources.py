"""A file that is streamed: what it holds when it is compressed, and whether its disk or its content is at fault."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
from collections.abc import Iterator
from typing import IO, Any, cast

from visir.errors import CollectionError, VisirError
from visir.remote import is_url

COPY = "copy the file again"
MAX_RATIO = 200
"""How many times its packed size what is unpacked may be, unless it is small: deflate packs nothing better than 1,032
to 1, and a picture, which is packed already, hardly at all; a text that repeats itself 10 to 50 to 1."""


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
