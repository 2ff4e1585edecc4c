"""IDX, the format of MNIST: a magic number, the length of every axis, then the bytes."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.files import read_bytes

_BYTES = 0x08
"""The type of unsigned bytes; the format knows others (0x09, 0x0B to 0x0E), MNIST does not use them."""


def read_idx(path: str | Path, axes: int) -> NDArray[np.uint8]:
    """Read the array of an IDX file of unsigned bytes, plain or `.gz`."""
    # The file is (all numbers big-endian): two zero bytes, the type, the number of axes; the length of each axis in
    # four bytes; the values, the last axis running fastest.
    data = read_bytes(path)
    retry = "is the download complete? compare its size"
    if len(data) < 4:
        raise VisirError(f"{path}: {len(data)} bytes; an IDX file begins with a magic number of four.", hint=retry)
    if data[:2] != b"\0\0" or data[2] != _BYTES or data[3] != axes:
        start, expected = data[:4].hex(" "), bytes((0, 0, _BYTES, axes)).hex(" ")
        raise VisirError(
            f"{path}: begins with {start}; expected {expected}, an IDX file of unsigned bytes with "
            f"{axes} {'axis' if axes == 1 else 'axes'}.",
            hint="are pictures and labels exchanged, or is it another kind of file?",
        )
    header = 4 + 4 * axes
    if len(data) < header:
        raise VisirError(f"{path}: ends within its header, after {len(data)} of {header} bytes.", hint=retry)
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", axes, 4))
    if len(data) - header != prod(shape):
        raise VisirError(
            f"{path}: says {' × '.join(map(str, shape))} = {prod(shape):,} bytes of values, "
            f"but {len(data) - header:,} follow its header.",
            hint=retry,
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
