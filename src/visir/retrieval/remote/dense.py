"""The forms of vectors in engines: dense, sparse, and several for each document; and the kinds of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import Embeddings, MultiVectorEmbeddings, SparseEmbeddings, TokenVectors
from visir.retrieval.dense import check_no_zero_vectors
from visir.retrieval.kernels import score_pairs as score_dense
from visir.retrieval.multi_vector.sides import TokenSide, score_token_places
from visir.retrieval.remote.engine import Nearest, Vector
from visir.retrieval.remote.index import RemoteIndex
from visir.retrieval.remote.settings import (
    DenseSettings,
    MilvusSettings,
    MilvusSparseSettings,
    PgvectorSettings,
    PgvectorSparseSettings,
    SeveralSettings,
    SparseSettings,
)
from visir.retrieval.rows import DENSE, MULTI, SPARSE
from visir.retrieval.sparse.scan_kernels import score_pairs
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
        score_dense(side.block(0, len(side)), query - first, held, rows, scores)
        return scores


class QdrantIndex(RemoteDenseIndex):
    """Kind "qdrant": dense vectors in Qdrant, embedded, or on a server."""

    kind = "qdrant"
    settings_type = DenseSettings


class PgvectorIndex(RemoteDenseIndex):
    """Kind "pgvector": dense vectors in a table of PostgreSQL."""

    kind = "pgvector"
    settings_type = PgvectorSettings

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
    def _check(cls, documents: Embeddings, settings: MilvusSettings) -> None:
        super()._check(documents, settings)
        if not 2 <= documents.dimension <= 32_768:
            raise EmbeddingError(f"Milvus stores vectors of 2 to 32,768 values; these have {documents.dimension:,}.")


# Sparse vectors in an engine.


class RemoteSparseIndex(RemoteIndex[SparseEmbeddings]):
    """Weighted words in an engine."""

    # The engine adds up in single precision: documents whose scores differ in the last bits only may be taken for one
    # another. What it finds is scored as in every sparse search here.

    form = SPARSE
    space = "sparse"

    @classmethod
    def _size(cls, documents: SparseEmbeddings) -> int:
        return 2 * len(documents.terms)

    @classmethod
    def _outgoing(cls, documents: SparseEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        rows = (documents.row(at) for at in range(start, stop))
        return [(np.asarray(terms, np.int32), np.asarray(values, np.float32)) for terms, values in rows]

    def _made(self, ids: pa.StringArray, raw: list[Vector | None]) -> SparseEmbeddings:
        offsets, terms, values = _rows(raw)
        return replace(self._like, ids=ids, offsets=offsets, terms=terms, values=values)

    def _arrays(self, given: SparseEmbeddings | list[Vector]) -> tuple[NDArray[Any], ...]:
        if isinstance(given, list):
            return _rows(given)
        return np.asarray(given.offsets), np.asarray(given.terms), np.asarray(given.values)

    def _scored(
        self, queries: SparseEmbeddings, query: NDArray[np.int64], held: Any, rows: NDArray[np.int64], settings: Any
    ) -> NDArray[np.float32]:
        scores = np.empty(len(query), np.float32)
        score_pairs(self._arrays(queries), query, held, rows, scores)
        return scores

    def _width(self) -> int:
        return 500  # terms and weights of a document, about


class QdrantSparseIndex(RemoteSparseIndex):
    """Kind "qdrant-sparse": inverted lists in Qdrant; every list of the query's terms is gone through."""

    kind = "qdrant-sparse"
    settings_type = SparseSettings


class PgvectorSparseIndex(RemoteSparseIndex):
    """Kind "pgvector-sparse": a column of type sparsevec in a table of PostgreSQL."""

    # Every document is compared, unless a graph is asked for (setting `m`).

    kind = "pgvector-sparse"
    settings_type = PgvectorSparseSettings
    _falls_short = True

    @classmethod
    def _check(cls, documents: SparseEmbeddings, settings: PgvectorSparseSettings) -> None:
        most = 1_000 if settings.m else 16_000
        counts = np.diff(documents.offsets)
        if len(counts) and counts.max() > most:
            name = documents.ids[int(counts.argmax())].as_py()
            raise EmbeddingError(
                f"pgvector {'builds graphs over' if settings.m else 'stores'} sparse vectors of up to {most:,} terms; "
                f"that of {name!r} has {counts.max():,}, and {int((counts > most).sum()):,} have more than {most:,}.",
                hint="m=0 (no graph, every document is compared) takes up to 16,000; or prune the vectors",
                code="pgvector-sparse-vectors-up",
            )


class MilvusSparseIndex(RemoteSparseIndex):
    """Kind "milvus-sparse": inverted lists in Milvus; every list of the query's terms counts."""

    kind = "milvus-sparse"
    settings_type = MilvusSparseSettings


# Several vectors for each document in Qdrant, found by MaxSim: embedded, or on a server.


class QdrantMultiIndex(RemoteIndex[MultiVectorEmbeddings]):
    """Kind "qdrant-multi": several vectors for each document in Qdrant, as they are."""

    # The engine compares the queries with every document, or walks a graph of them (setting `m`), by MaxSim of float32
    # vectors; what it finds is scored as in every search here.

    kind = "qdrant-multi"
    form = MULTI
    settings_type = SeveralSettings
    space = "multi-vector"
    _falls_short = True  # among many equal vectors most are out of a graph's reach

    @classmethod
    def _size(cls, documents: MultiVectorEmbeddings) -> int:
        return len(documents.vectors) * documents.dimension

    @classmethod
    def _outgoing(cls, documents: MultiVectorEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        return [np.asarray(documents.row(at), np.float32) for at in range(start, stop)]

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

    def _width(self) -> int:
        return 50 * self._like.dimension  # numbers of a document, about


def _rows(raw: list[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(offsets, terms, values) of vectors that came back, terms ascending whatever order they came in."""
    none = np.empty(0, np.int32), np.empty(0, np.float32)
    rows = [none, *(none if entry is None else entry for entry in raw)]
    offsets = np.concatenate([[0], np.cumsum([len(terms) for terms, _ in rows[1:]])]).astype(np.int64)
    terms, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    row = np.repeat(np.arange(len(raw)), np.diff(offsets))
    if (np.diff(row * 2**32 + terms) < 0).any():
        order = np.lexsort((terms, row))
        terms, values = terms[order], values[order]
    return offsets, terms, values
