"""Exact search over few vectors in NumPy, where numba, and its compiler, would take longer (`visir.jit.pays`).

Scores are what `kernels` computes: dot products in double precision, rounded to float32. The order of the sums is
another, which changes what is left after rounding about once in 1e8 scores.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 8192
POSTING = 8
"""What a weight of a sparse vector costs, in multiplications of dense ones."""
Sparse = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Sparse vectors as (offsets, terms, values)."""


def lengths(vectors: NDArray[np.float32], out: NDArray[np.float64]) -> None:
    """(n,) float64 Euclidean lengths of float32 rows."""
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        out[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", block, block))


def divide_rows(vectors: NDArray[np.float32], by: NDArray[np.float64]) -> None:
    """Divide each float32 row by its own float64 length, in place; the quotient is rounded once."""
    with np.errstate(invalid="ignore", divide="ignore"):  # zero vectors are refused afterwards, by name
        for start in range(0, len(vectors), _BLOCK):
            block = slice(start, start + _BLOCK)
            vectors[block] = vectors[block].astype(np.float64) / by[block, None]


def products(queries: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The (q, n) dot products of (q, d) queries and (n, d) vectors, each before it is rounded."""
    scores = np.empty((len(queries), len(vectors)), np.float64)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        for row, query in enumerate(queries.astype(np.float64)):
            # Not a matrix product: in that, the last bits of a score depend on where its vector stands.
            scores[row, start : start + _BLOCK] = np.einsum("ij,j->i", block, query)
    return scores


def late_products(
    queries: NDArray[np.float32],
    query_offsets: NDArray[np.int64],
    vectors: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The (q, n) sums of the greatest product of each vector of a query with a vector of a document (MaxSim)."""
    greatest = np.maximum.reduceat(products(queries, vectors), offsets[:-1], axis=1)
    return np.add.reduceat(greatest, query_offsets[:-1], axis=0)


def weighted_products(queries: Sparse, vectors: Sparse, terms: int) -> NDArray[np.float64]:
    """The (q, n) dot products of sparse vectors, each summed in ascending order of terms, as compiled loops do."""
    lengths, weights = np.diff(vectors[0]), vectors[2].astype(np.float64)
    document = np.repeat(np.arange(len(lengths)), lengths)
    query, scores = np.zeros(terms), np.empty((len(queries[0]) - 1, len(lengths)))
    for row, (start, stop) in enumerate(pairwise(queries[0].tolist())):
        query[queries[1][start:stop]] = queries[2][start:stop]
        scores[row] = np.bincount(document, weights * query[vectors[1]], len(lengths))
        query[queries[1][start:stop]] = 0.0
    return scores


def rounded(scores: NDArray[Any]) -> NDArray[np.float32]:
    """Scores as float32; those that are too large become infinite, and are refused afterwards, by name."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def best(scores: NDArray[Any], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The (q, depth) columns of the best scores of each row, and these; of equal ones the first column is first."""
    scores = rounded(scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int32), np.take_along_axis(scores, order, axis=1)


def answers(state: Any, scores: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The best of each query of a `SearchState`, and what stands before each of its positives (`state.better`)."""
    scores = rounded(scores)[state.row_of]
    places = np.arange(scores.shape[1])
    for row, (start, stop) in enumerate(pairwise(state.offsets.tolist())):
        positive = np.isin(places, state.documents[start:stop])
        for at in range(start, stop):
            own, known = state.documents[at], scores[row, state.documents[at]]
            before = places > own if state.ties == "trec" else places < own
            if state.ties in ("pessimistic", "optimistic"):
                before = np.where(positive, before, state.ties == "pessimistic")
            state.better[at] = np.count_nonzero((scores[row] > known) | ((scores[row] == known) & before))
    return best(scores, state.depth)


def score_pairs(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right: NDArray[np.float32],
    right_rows: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """(p,) float32 scores of pairs of a row of `left` and a row of `right`."""
    for start in range(0, len(out), _BLOCK):
        some = slice(start, start + _BLOCK)
        near, far = (rows[places[some]].astype(np.float64) for rows, places in ((left, left_rows), (right, right_rows)))
        out[some] = np.einsum("ij,ij->i", near, far)


def best_candidates(
    start: int, stop: int, queries: Any, vectors: Any, rows: Any, places: Any, k: int,
    found: Any, scores: Any, fill: Any,
) -> None:  # fmt: skip
    """As `kernels.best_candidates`."""
    for q in range(start, stop):
        own = np.flatnonzero((rows[q] >= 0) & (places[q] >= 0))
        exact = np.empty(len(own), np.float32)
        score_pairs(queries, np.full(len(own), q), vectors, rows[q, own], exact)
        best = np.lexsort((places[q, own], -exact))[:k]
        fill[q] = len(best)
        found[q, : len(best)], scores[q, : len(best)] = places[q, own[best]], exact[best] + np.float32(0)  # no -0
