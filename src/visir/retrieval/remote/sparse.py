"""Sparse vectors in an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import SparseEmbeddings
from visir.retrieval.parts import SPARSE
from visir.retrieval.remote.index import RemoteIndex
from visir.retrieval.remote.points import Vector
from visir.retrieval.remote.settings import MilvusSparseSettings, PgvectorSparseSettings, SparseSettings
from visir.retrieval.sparse.scan_kernels import score_pairs


class RemoteSparseIndex(RemoteIndex[SparseEmbeddings]):
    """Weighted words in an engine."""

    # The engine adds up in single precision: documents whose scores differ in the last bits only may be taken for one
    # another. What it finds is scored as in every sparse search here.

    form = SPARSE
    space = "sparse"
    vector_form = "sparse"

    @classmethod
    def _check(cls, documents: SparseEmbeddings, settings: Any) -> None:
        pass  # weights are finite and positive, or there were no such embeddings

    @classmethod
    def _size(cls, documents: SparseEmbeddings) -> int:
        return 2 * len(documents.terms)

    @classmethod
    def _outgoing(cls, documents: SparseEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        rows = (documents.row(at) for at in range(start, stop))
        return [(np.asarray(terms, np.int32), np.asarray(values, np.float32)) for terms, values in rows]

    @classmethod
    def _sent(cls, documents: SparseEmbeddings, settings: Any) -> SparseEmbeddings:
        return documents.select(documents.ids.take(pc.sort_indices(documents.ids)))

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
    def _compares_all(cls, settings: PgvectorSparseSettings) -> bool:
        return settings.m == 0

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
