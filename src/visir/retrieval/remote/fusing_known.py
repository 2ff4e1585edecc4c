"""Reciprocal rank fusion outside of the engine, where it ranks documents of another program among the index's.

These are, in Qdrant and Milvus, documents whose key is not the one that visir gives, and whose number of the change
that added them lies below that of the next change: points that were copied with their payload, and rows of Milvus,
which all need this number. Points without it match no filter. In PostgreSQL a row with an id and a number is a
document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.remote.engine import Engine, Nearest
from visir.retrieval.remote.id_index import SearchPlaces


def fuse_known(
    engine: Engine,
    searches: Sequence[Nearest],
    weights: Sequence[float],
    documents: SearchPlaces,
    limit: int,
    constant: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The places and scores of the best `limit` documents, by falling score, ties by place."""
    sums: dict[int, float] = {}
    for search, weight in zip(searches, weights, strict=True):
        for rank, place in enumerate(_known(engine, search, documents), 1):
            sums[place] = sums.get(place, 0.0) + weight / (constant + rank)
    best = sorted(sums, key=lambda place: (-sums[place], place))[:limit]
    return np.array(best, np.int64), np.array([sums[place] for place in best], np.float32)


def _known(engine: Engine, search: Nearest, documents: SearchPlaces) -> list[int]:
    """The places of the nearest documents that count; more are asked for until there are as many as wanted."""
    limit = search.limit
    while True:
        ef = None if search.ef is None else max(search.ef, limit)
        [answer] = engine.ask([replace(search, limit=limit, ef=ef)], vectors=False)
        places = documents.places([hit.id for hit in answer])
        known: list[int] = places[places >= 0][: search.limit].tolist()
        if len(known) == search.limit or len(answer) < limit:
            return known
        limit *= 4
