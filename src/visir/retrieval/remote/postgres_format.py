"""Vectors as PostgreSQL sends and receives them in binary: types vector, halfvec and sparsevec of pgvector.

The layouts are those of `vector_recv`, `halfvec_recv` and `sparsevec_recv` (pgvector 0.8), and of COPY (PostgreSQL's
manual, "COPY, binary format"). All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from visir.retrieval.remote.points import Vector

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""With what a COPY begins."""
TRAILER = b"\xff\xff"
"""With what it ends."""
_NULL = struct.pack(">i", -1)
_FLOATS = {"vector": ">f4", "halfvec": ">f2"}


def packed(vector: Vector, type_: str, dimension: int) -> bytes:
    """A vector as the server takes it."""
    # vector: (d,) values, or terms and weights.
    if isinstance(vector, tuple):
        terms, weights = vector
        head = struct.pack(">iii", dimension, len(terms), 0)
        return head + np.asarray(terms, ">i4").tobytes() + np.asarray(weights, ">f4").tobytes()
    return struct.pack(">hh", dimension, 0) + np.asarray(vector, _FLOATS[type_]).tobytes()


def possible(ids: Iterable[str]) -> list[str]:
    """Those of these ids that a row can have: PostgreSQL refuses a request with a NUL in a text.

    Example:
        >>> possible(["a", "b\\0"])
        ['a']
    """
    return [id for id in ids if "\0" not in id]


def unpacked(data: bytes, type_: str) -> Vector:
    """What `packed` made, as the server sends it."""
    if type_ != "sparsevec":
        return np.frombuffer(data, _FLOATS[type_], offset=4).astype(np.float32)
    count = int.from_bytes(data[4:8], "big")
    terms = np.frombuffer(data, ">i4", count, 12).astype(np.int32)
    return terms, np.frombuffer(data, ">f4", count, 12 + 4 * count).astype(np.float32)


def row(fields: Iterable[bytes | None]) -> bytes:
    """One row of a COPY."""
    parts = [_NULL if field is None else struct.pack(">i", len(field)) + field for field in fields]
    return struct.pack(">h", len(parts)) + b"".join(parts)


def array(items: Sequence[bytes | None], oid: int) -> bytes:
    """An array of one dimension, of elements of the type with this number."""
    parts = [_NULL if item is None else struct.pack(">i", len(item)) + item for item in items]
    return struct.pack(">iiiii", 1, int(None in items), oid, len(items), 1) + b"".join(parts)
