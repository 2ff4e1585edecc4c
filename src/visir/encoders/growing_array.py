"""An NPY file that grows at its end: its header is written last, when the number of rows is known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 128


class GrowingArray:
    """Rows of one shape and type, appended to a file."""

    def __init__(self, path: Path, dtype: str, shape: Sequence[int]) -> None:
        self.path, self.shape = path, tuple(shape)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        self.stream: IO[bytes] | None = None

    def bytes_of(self, rows: NDArray[Any]) -> bytes:
        """The bytes of rows, as they are written."""
        return np.ascontiguousarray(rows, self.dtype).tobytes()

    def open(self, rows: int) -> None:
        """Keep the first rows of the file, and go on at their end; 0 begins anew."""
        self.stream = self.path.open("r+b" if rows else "w+b")
        self.stream.truncate(HEADER_BYTES + rows * self.row_bytes)
        self.stream.seek(0, os.SEEK_END)

    def write(self, data: bytes) -> None:
        """Append what `bytes_of` gave, and wait until it is on disk."""
        assert self.stream is not None, "it was opened"
        self.stream.write(data)
        self.sync()

    def finish(self, rows: int) -> None:
        """Write the header (format 1.0, padded to a fixed length)."""
        assert self.stream is not None, "it was opened"
        shape = f"({', '.join(map(str, (rows, *self.shape)))}{',' if not self.shape else ''})"
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
        self.stream.seek(0)
        self.stream.write(start + text.encode().ljust(HEADER_BYTES - 11) + b"\n")
        self.sync()

    def sync(self) -> None:
        """Wait until everything is on disk."""
        assert self.stream is not None, "it was opened"
        self.stream.flush()
        os.fsync(self.stream.fileno())
