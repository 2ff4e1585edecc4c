"""Dense vectors in an engine: a graph of near neighbours (HNSW)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import Embeddings
from visir.retrieval import kernels
from visir.retrieval.dense.flat import check_no_zero_vectors
from visir.retrieval.parts import DENSE
from visir.retrieval.remote.engine import Nearest
from visir.retrieval.remote.index import RemoteIndex
from visir.retrieval.remote.points import Vector
from visir.retrieval.remote.settings import DenseSettings, MilvusSettings, PgvectorSettings
from visir.retrieval.vectors import BLOCK, Side

_HALF = 65_504
"""The largest number of half precision."""


class RemoteDenseIndex(RemoteIndex[Embeddings]):
    """Dense vectors in an engine."""

    # The engine compares inner products of float32 vectors. Under cosine they are divided by their lengths before they
    # are sent (by visir, in float64, as in every search here, rather than by the engine), so `documents` and `select`
    # give vectors of length 1; under "dot" they come back as they were.

    form = DENSE
    space = "dense"
    _falls_short = True  # among many equal vectors most are out of a graph's reach

    @classmethod
    def _check(cls, documents: Embeddings, settings: Any) -> None:
        check_no_zero_vectors(documents, settings.similarity)

    @classmethod
    def _size(cls, documents: Embeddings) -> int:
        return len(documents) * documents.dimension

    @classmethod
    def _as_held(cls, settings: Any) -> Any:
        # They were divided by their lengths before; a second time would change last bits.
        return replace(settings, similarity="dot")

    @classmethod
    def _outgoing(cls, documents: Embeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        side = Side(documents, np.arange(start, stop), settings.similarity)
        return list(side.block(0, stop - start))

    @classmethod
    def _sent(cls, documents: Embeddings, settings: Any) -> Embeddings:
        order = pc.sort_indices(documents.ids).to_numpy().astype(np.int64)
        side = Side(documents, order, settings.similarity)
        blocks = [side.block(start, min(start + BLOCK, len(side))) for start in range(0, len(side), BLOCK)]
        vectors = np.concatenate(blocks) if blocks else np.empty((0, documents.dimension), np.float32)
        ids = documents.ids.take(pa.array(order))
        return replace(documents, ids=ids, vectors=vectors, normalised=settings.similarity == "cosine")

    def _made(self, ids: pa.StringArray, raw: list[Vector | None]) -> Embeddings:
        vectors = np.array(raw, np.float32).reshape(len(raw), self._like.dimension)
        return replace(self._like, ids=ids, vectors=vectors, normalised=self.settings.similarity == "cosine")

    def _arrays(self, given: Embeddings | list[Vector]) -> NDArray[np.float32]:
        if isinstance(given, list):
            return np.array(given, np.float32).reshape(len(given), self._like.dimension)
        return np.asarray(given.vectors)

    def _scored(
        self, queries: Embeddings, query: NDArray[np.int64], held: Any, rows: NDArray[np.int64], settings: Any
    ) -> NDArray[np.float32]:
        first = int(query[0])
        side = Side(queries, np.arange(first, int(query[-1]) + 1), settings.similarity)
        scores = np.empty(len(query), np.float32)
        kernels.score_pairs(side.block(0, len(side)), query - first, held, rows, scores)
        return scores

    def _nearest(self, vector: Vector, limit: int, exact: bool, settings: Any) -> Nearest:
        return Nearest(self.space, vector, limit, max(settings.ef_search, limit), exact)


class QdrantIndex(RemoteDenseIndex):
    """Kind "qdrant": dense vectors in Qdrant, embedded, or on a server."""

    kind = "qdrant"
    settings_type = DenseSettings


class PgvectorIndex(RemoteDenseIndex):
    """Kind "pgvector": dense vectors in a table of PostgreSQL."""

    kind = "pgvector"
    settings_type = PgvectorSettings

    @classmethod
    def _compares_all(cls, settings: PgvectorSettings) -> bool:
        return settings.m == 0

    @classmethod
    def _check(cls, documents: Embeddings, settings: PgvectorSettings) -> None:
        super()._check(documents, settings)
        most = {"float32": 2_000, "float16": 4_000}[settings.precision]
        if settings.m and documents.dimension > most:
            raise EmbeddingError(
                f"pgvector builds graphs over vectors of up to {most:,} values ({settings.precision}); these have "
                f"{documents.dimension:,}.",
                hint="precision=float16 takes up to 4,000, m=0 (no graph, every vector is compared) up to 16,000",
                code="pgvector-builds-graphs-over",
            )
        if documents.dimension > 16_000:
            raise EmbeddingError(
                f"pgvector stores vectors of up to 16,000 values; these have {documents.dimension:,}.",
                code="pgvector-stores-vectors-up",
            )
        if settings.precision == "float16" and settings.similarity == "dot":
            largest = np.maximum(documents.vectors.max(axis=1), -documents.vectors.min(axis=1))
            if (largest > _HALF).any():
                at = int(np.argmax(largest))
                raise EmbeddingError(
                    f"precision=float16 holds values of up to {_HALF:,}; the vector of {documents.ids[at].as_py()!r} "
                    f"has one of {largest[at]:,.0f}.",
                    hint="precision=float32, or scale the vectors down",
                    code="precision-float16-holds-values",
                )

    def _nearest(self, vector: Vector, limit: int, exact: bool, settings: PgvectorSettings) -> Nearest:
        return super()._nearest(held_as(vector, settings), limit, exact, settings)


def held_as(vector: Vector, settings: Any) -> Vector:
    """A query as the engine takes it: of half precision no value above its largest; the order of answers stays."""
    if getattr(settings, "precision", "") != "float16" or not isinstance(vector, np.ndarray):
        return vector
    largest = float(np.abs(vector).max())
    return vector * np.float32(_HALF / largest) if largest > _HALF else vector


class MilvusIndex(RemoteDenseIndex):
    """Kind "milvus": dense vectors in a collection of Milvus."""

    kind = "milvus"
    settings_type = MilvusSettings

    @classmethod
    def _compares_all(cls, settings: MilvusSettings) -> bool:
        return settings.m == 0

    @classmethod
    def _check(cls, documents: Embeddings, settings: MilvusSettings) -> None:
        super()._check(documents, settings)
        if not 2 <= documents.dimension <= 32_768:
            raise EmbeddingError(f"Milvus stores vectors of 2 to 32,768 values; these have {documents.dimension:,}.")
