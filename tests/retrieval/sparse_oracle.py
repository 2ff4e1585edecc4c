"""The slow truth of sparse search: SciPy multiplies two matrices, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visir.records import Gallery, Run, SparseEmbeddings
from visir.retrieval.answers import Hits, run_of
from visir.retrieval.rows import SPARSE, in_order

_BLOCK = 64
"""Queries multiplied at a time."""


@dataclass(frozen=True)
class OracleIndex:
    """Every exact index of sparse vectors must return the same answers."""

    # Scores are dot products, summed in float64 in ascending order of terms (SciPy adds in that order: for each term of
    # a query the products to the sums of the documents) and rounded to float32; ties by id. Only documents that share a
    # term with the query are answers.

    documents: SparseEmbeddings

    @classmethod
    def build(cls, documents: SparseEmbeddings) -> OracleIndex:
        return cls(documents)

    def search(self, queries: SparseEmbeddings, k: int = 10) -> Run:
        documents = self.documents.select(sorted(self.documents.ids.to_pylist(), key=str.encode))
        ordered = in_order(SPARSE, queries, documents, len(documents), k)
        matrix, transposed = (one.to_scipy().astype(np.float64) for one in (ordered, documents))
        transposed = transposed.T.tocsr()
        hits = []
        for first in range(0, len(ordered), _BLOCK):
            products = matrix[first : first + _BLOCK] @ transposed
            for row in range(products.shape[0]):
                part = slice(products.indptr[row], products.indptr[row + 1])
                place, scores = products.indices[part], products.data[part].astype(np.float32)
                order = np.lexsort((place, -scores))[:k]
                hits.append(Hits(np.full(len(order), first + row), place[order].astype(np.int64), scores[order]))
        gallery = Gallery.of(documents.modality, documents.ids, "all documents")
        return run_of(Hits.joined(hits), ordered, gallery, k, documents.encoder, {}, documents.ids)
