"""Dot products of sparse vectors by SciPy's product of two matrices, in float64: slow and simple."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings
from visir.retrieval.answers import Hits

_BLOCK = 64
"""Queries multiplied at a time: their scores with every document are in memory."""


def transposed(documents: SparseEmbeddings) -> Any:
    """Return the (V, n) CSR matrix in float64: for every term the documents that have it."""
    return documents.to_scipy().astype(np.float64).T.tocsr()


def best(queries: SparseEmbeddings, documents: Any, places: NDArray[np.int64], k: int) -> Hits:
    """Return the best `k` documents of each query; ties by position."""
    # A score is the sum over the common terms, in ascending order, in float64, rounded to float32. SciPy adds in that
    # order: for each term of a query it adds the products to the sums of the documents. Only documents that share a
    # term are answers.
    # places: (n,) the position of each document in the gallery, -1 for one that is not a candidate.
    matrix = queries.to_scipy().astype(np.float64)
    hits = []
    for first in range(0, len(queries), _BLOCK):
        products = matrix[first : first + _BLOCK] @ documents
        for row in range(products.shape[0]):
            part = slice(products.indptr[row], products.indptr[row + 1])
            with np.errstate(over="ignore"):  # `check_finite_scores` names the pair
                place, scores = places[products.indices[part]], products.data[part].astype(np.float32)
            place, scores = place[place >= 0], scores[place >= 0]
            if len(scores) > k:
                kth = np.partition(scores, len(scores) - k)[len(scores) - k]
                place, scores = place[scores >= kth], scores[scores >= kth]
            order = np.lexsort((place, -scores))[:k]
            hits.append(Hits(np.full(len(order), first + row), place[order], scores[order]))
    return Hits.joined(hits)
