"""Several vectors for each document in Qdrant, found by MaxSim: embedded, or on a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import MultiVectorEmbeddings, TokenVectors
from visir.retrieval.multi_vector.pairs import score_token_places
from visir.retrieval.multi_vector.sides import TokenSide
from visir.retrieval.parts import MULTI
from visir.retrieval.remote.engine import Nearest
from visir.retrieval.remote.index import RemoteIndex
from visir.retrieval.remote.points import Vector
from visir.retrieval.remote.settings import SeveralSettings


class QdrantMultiIndex(RemoteIndex[MultiVectorEmbeddings]):
    """Kind "qdrant-multi": several vectors for each document in Qdrant, as they are."""

    # The engine compares the queries with every document, or walks a graph of them (setting `m`), by MaxSim of float32
    # vectors; what it finds is scored as in every search here.

    kind = "qdrant-multi"
    form = MULTI
    settings_type = SeveralSettings
    space = "multi-vector"
    vector_form = "multi-vector"
    _falls_short = True  # among many equal vectors most are out of a graph's reach

    @classmethod
    def _check(cls, documents: MultiVectorEmbeddings, settings: SeveralSettings) -> None:
        pass  # vectors are finite, and every document has one, or there were no such embeddings

    @classmethod
    def _size(cls, documents: MultiVectorEmbeddings) -> int:
        return len(documents.vectors) * documents.dimension

    @classmethod
    def _outgoing(cls, documents: MultiVectorEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        return [np.asarray(documents.row(at), np.float32) for at in range(start, stop)]

    @classmethod
    def _sent(cls, documents: MultiVectorEmbeddings, settings: Any) -> MultiVectorEmbeddings:
        return documents.take(pc.sort_indices(documents.ids).to_numpy().astype(np.int64))

    def _made(self, ids: pa.StringArray, raw: list[Vector | None]) -> MultiVectorEmbeddings:
        if not raw:
            return replace(self._like, ids=ids)
        several = TokenVectors.of([np.array(rows, np.float32) for rows in raw])
        return replace(self._like, ids=ids, offsets=several.offsets, vectors=several.vectors)

    def _arrays(self, given: MultiVectorEmbeddings | list[Vector]) -> TokenSide:
        if isinstance(given, list):
            ids = pa.array([str(row) for row in range(len(given))], pa.string())
            given = self._made(ids, list(given))
        return TokenSide(given, np.arange(len(given)))

    def _scored(
        self,
        queries: MultiVectorEmbeddings,
        query: NDArray[np.int64],
        held: TokenSide,
        rows: NDArray[np.int64],
        settings: Any,
    ) -> NDArray[np.float32]:
        first = int(query[0])
        side = TokenSide(queries, np.arange(first, int(query[-1]) + 1))
        return score_token_places(side, query - first, held, rows)

    def _nearest(self, vector: Vector, limit: int, exact: bool, settings: SeveralSettings) -> Nearest:
        return Nearest(self.space, vector, limit, max(settings.ef_search, limit), exact)

    def _width(self) -> int:
        return 50 * self._like.dimension  # numbers of a document, about
