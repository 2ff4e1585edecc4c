"""Sparse vectors in Qdrant: inverted lists, embedded or on a server."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import SparseEmbeddings
from visir.retrieval.parts import SPARSE
from visir.retrieval.remote.index import RemoteIndex
from visir.retrieval.remote.points import Vector
from visir.retrieval.remote.settings import SparseSettings
from visir.retrieval.sparse.scan_kernels import score_pairs


class QdrantSparseIndex(RemoteIndex[SparseEmbeddings]):
    """Kind "qdrant-sparse": weighted words in Qdrant.

    The engine goes through every list of the query's terms, but adds up in single precision: documents whose scores
    differ in the last bits only may be taken for one another. What it finds is scored as in every sparse search here.
    """

    kind = "qdrant-sparse"
    form = SPARSE
    settings_type = SparseSettings
    space = "sparse"

    @classmethod
    def _check(cls, documents: SparseEmbeddings, settings: SparseSettings) -> None:
        pass  # weights are finite and positive, or there were no such embeddings

    @classmethod
    def _dimension(cls, documents: SparseEmbeddings) -> int:
        return 0

    @classmethod
    def _size(cls, documents: SparseEmbeddings) -> int:
        return 2 * len(documents.terms)

    @classmethod
    def _outgoing(cls, documents: SparseEmbeddings, start: int, stop: int, settings: Any) -> list[Vector]:
        rows = (documents.row(at) for at in range(start, stop))
        return [(terms.tolist(), values.tolist()) for terms, values in rows]

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


def _rows(raw: list[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """(offsets, terms, values) of vectors that came back, terms ascending whatever order they came in."""
    rows = [([], []) if entry is None else entry for entry in raw]
    offsets = np.concatenate([[0], np.cumsum([len(terms) for terms, _ in rows])]).astype(np.int64)
    terms = np.fromiter(chain.from_iterable(row[0] for row in rows), np.int32, offsets[-1])
    values = np.fromiter(chain.from_iterable(row[1] for row in rows), np.float32, offsets[-1])
    row = np.repeat(np.arange(len(rows)), np.diff(offsets))
    if (np.diff(row * 2**32 + terms) < 0).any():
        order = np.lexsort((terms, row))
        terms, values = terms[order], values[order]
    return offsets, terms, values
