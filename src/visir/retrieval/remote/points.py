"""Documents as engines get them; Qdrant knows numbers and UUIDs as ids, visir any text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
from numpy.typing import NDArray

SparseVector: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Terms, ascending, and their weights."""
Vector: TypeAlias = NDArray[np.float32] | SparseVector
"""A dense vector (d,), several of them (n, d), or a sparse one."""
ID = "id"
"""The name of a document's id in the payload of a point of Qdrant."""


@dataclass(frozen=True)
class Point:
    """One document in the engine: its id and its vectors by name."""

    id: str
    vectors: dict[str, Vector]


def key_of(id: str) -> UUID:
    """The point's id in Qdrant: the UUID (version 5, in the namespace of URLs) of "visir:" and the document's id."""
    return uuid5(NAMESPACE_URL, f"visir:{id}")


def id_of(hit: Any) -> str | None:
    """The document's id, from the payload of a point of Qdrant; None for a point that visir did not put there."""
    return own_id(str(hit.id), (hit.payload or {}).get(ID))


def own_id(key: str, id: object) -> str | None:
    """The id, if the engine has the document under the key that belongs to it; else None (it is another program's)."""
    return id if isinstance(id, str) and key.replace("-", "") == key_of(id).hex else None
