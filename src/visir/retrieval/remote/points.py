"""Documents as engines get them; Qdrant knows numbers and UUIDs as ids, visir any text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SparseVector: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Terms, ascending, and their weights."""
Vector: TypeAlias = NDArray[np.float32] | SparseVector
"""A dense vector (d,), several of them (n, d), or a sparse one."""
Key: TypeAlias = Any
"""What an engine calls a document: a UUID in Qdrant, the id itself elsewhere."""


@dataclass(frozen=True)
class Point:
    """One document in the engine: its id and its vectors by name."""

    id: str
    vectors: dict[str, Vector]


def key_of(id: str) -> UUID:
    """The point's id in Qdrant: the UUID (version 5, in the namespace of URLs) of "visir:" and the document's id."""
    return uuid5(NAMESPACE_URL, f"visir:{id}")


def packed(keys: Iterable[UUID]) -> NDArray[np.bytes_]:
    """(n,) the sixteen bytes of each."""
    return np.frombuffer(b"".join(key.bytes for key in keys), "S16")


class Places:
    """From points back to documents: where each stands among the sorted ids, by bisection."""

    def __init__(self, ids: pa.StringArray) -> None:
        keys = packed(map(key_of, ids.to_pylist())) if len(ids) else np.empty(0, "S16")
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def __call__(self, keys: Sequence[UUID]) -> NDArray[np.int64]:
        """(n,) the place of each point; -1 for a point that is none of the documents."""
        if len(keys) == 0 or len(self._keys) == 0:
            return np.full(len(keys), -1, np.int64)
        packed_keys = packed(keys)
        at = np.minimum(np.searchsorted(self._keys, packed_keys), len(self._keys) - 1)
        places: NDArray[np.int64] = np.where(self._keys[at] == packed_keys, self._order[at], -1)
        return places
