"""Arrow arrays made from their buffers.

`pyarrow.array` and `to_numpy` import pandas wherever it is installed: 0.2 s and 33 MB of a new process. So
what a first answer needs is made here. Elsewhere `pyarrow.array` is as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def integer_array(values: NDArray[np.integer]) -> pa.Array:
    """(n,) an array of the same type of integers, on the same memory where Arrow can read it."""
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [None, pa.py_buffer(plain)])


def text_array(values: Sequence[str]) -> pa.StringArray:
    """(n,) an array of strings, without nulls."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{len(encoded):,} texts of {ends[-1]:,} bytes together: an array holds 2 GiB of them")
    offsets, content = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(encoded), offsets, content)


def numpy_integers(array: pa.Array) -> NDArray[Any]:
    """(n,) integers without nulls as NumPy's, on the same memory, read-only."""
    values = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype(), len(array) + array.offset)
    return values[array.offset :]
