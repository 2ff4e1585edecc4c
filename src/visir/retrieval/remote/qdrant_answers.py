"""What Qdrant answers, embedded or on a server, as hits and vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from visir.retrieval.remote.engine import EngineHit
from visir.retrieval.remote.points import Vector, id_of


def hits_of(answer: Iterable[Any], space: str | None = None) -> list[EngineHit]:
    """The hits of one answer."""
    return [EngineHit(id_of(hit), hit.score, None if space is None else vector_of(hit.vector[space])) for hit in answer]


def vector_of(vector: Any) -> Vector:
    """A vector, dense (or several) or sparse."""
    if isinstance(vector, list):
        return np.array(vector, np.float32)
    return np.array(vector.indices, np.int32), np.array(vector.values, np.float32)
