"""Compiled kernels of MaxSim: reduce a product of vectors to scores, score pairs exactly, count what is better.

As in dense search (`visir.retrieval.kernels`), a matrix product only *filters*, because its last bits depend on the
place of a pair in the matrix. The score of a pair is *defined*: for each vector of the query the greatest dot product
with a vector of the document, in double precision; their sum in the order of the query's vectors, in double precision;
rounded to float32. It is a function of the vectors of the two items alone, and it does not depend on the order of the
document's vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit, plain

PESSIMISTIC = 1
LARGER_ID = 3


@njit("reassoc")
def _dots(a: Any, b: Any, c: Any, d: Any, vector: Any) -> Any:
    """The dot products of four vectors with one, all float64 copies of float32: four at a time share its loads."""
    # Products of two float32 are exact in float64, and each sum has the one order of the compiled loop.
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for i in range(vector.shape[0]):
        first += a[i] * vector[i]
        second += b[i] * vector[i]
        third += c[i] * vector[i]
        fourth += d[i] * vector[i]
    return first, second, third, fourth


@njit()
def reduce_product(product: Any, documents: Any, queries: Any, room: Any, out: Any, top: int, left: int) -> None:
    """The scores of a product of vectors: the greatest value in each document, summed over the query's vectors."""
    # product: (document vectors, query vectors) float32.
    # room: (query vectors,) float32, to work in.
    # out: float32, filled in with (queries, documents) from row `top` and column `left` on.
    for d in range(documents.shape[0] - 1):
        first = product[documents[d]]
        for c in range(room.shape[0]):
            room[c] = first[c]
        for r in range(documents[d] + 1, documents[d + 1]):
            row = product[r]
            for c in range(room.shape[0]):
                room[c] = row[c] if row[c] > room[c] else room[c]
        for q in range(queries.shape[0] - 1):
            total = 0.0
            for c in range(queries[q], queries[q + 1]):
                total += np.float64(room[c])
            out[top + q, left + d] = np.float32(total)


@njit()
def _load(vectors: Any, query: Any) -> None:
    """Copy vectors to float64; the rows behind them, up to a multiple of four, are zero."""
    query[:] = 0.0
    for i in range(vectors.shape[0]):
        for c in range(vectors.shape[1]):
            query[i, c] = vectors[i, c]


@njit()
def _match(query: Any, document: Any, vector: Any, best: Any, places: Any) -> None:
    """For each row of `query` (a multiple of four) the greatest product with a row of `document`, and the first
    such."""
    # `vector` is room for one vector in float64.
    best[: query.shape[0]] = -np.inf
    for r in range(document.shape[0]):
        for c in range(vector.shape[0]):
            vector[c] = document[r, c]
        for i in range(0, query.shape[0], 4):
            products = _dots(query[i], query[i + 1], query[i + 2], query[i + 3], vector)
            for j in range(4):
                if products[j] > best[i + j]:
                    best[i + j] = products[j]
                    places[i + j] = r


@njit()
def score_pairs(
    queries: Any, query_offsets: Any, query_of: Any, documents: Any, document_offsets: Any, document_of: Any, out: Any
) -> None:
    """(p,) exact float32 scores of the pairs (`query_of[p]`, `document_of[p]`) of two ragged arrays of float32."""
    longest, padded = 0, 0
    for p in range(query_of.shape[0]):
        longest = max(longest, query_offsets[query_of[p] + 1] - query_offsets[query_of[p]])
    longest = (longest + 3) // 4 * 4
    query, vector = np.empty((longest, queries.shape[1]), np.float64), np.empty(queries.shape[1], np.float64)
    best, places = np.empty(longest, np.float64), np.empty(longest, np.int64)
    for p in range(query_of.shape[0]):
        begin, end = query_offsets[query_of[p]], query_offsets[query_of[p] + 1]
        if p == 0 or query_of[p] != query_of[p - 1]:
            padded = (end - begin + 3) // 4 * 4
            _load(queries[begin:end], query[:padded])
        document = documents[document_offsets[document_of[p]] : document_offsets[document_of[p] + 1]]
        _match(query[:padded], document, vector, best, places)
        total = 0.0
        for i in range(end - begin):
            total += best[i]
        out[p] = np.float32(total)


@njit()
def align(query: Any, document: Any, places: Any, scores: Any) -> None:
    """For each vector of a query, the first vector of a document with the greatest exact dot product, and that."""
    # `places` and `scores` have room for a multiple of four vectors.
    loaded, vector = np.empty((scores.shape[0], query.shape[1]), np.float64), np.empty(query.shape[1], np.float64)
    _load(query, loaded)
    _match(loaded, document, vector, scores, places)


@njit()
def mark_near(scores: Any, slacks: Any, offsets: Any, known: Any, near: Any) -> None:
    """Mark the scores of a block that are too close to that of a positive of their query to be told apart."""
    # scores: (queries, documents) approximate scores of one block.
    # slacks: (queries,) the largest error of a score.
    # known: (positives,) exact scores.
    # near: (queries, documents) bool, filled in.
    for q in range(scores.shape[0]):
        row, marks = scores[q], near[q]
        for i in range(row.shape[0]):
            marks[i] = False
        for p in range(offsets[q], offsets[q + 1]):
            low, high = known[p] - slacks[q], known[p] + slacks[q]
            for i in range(row.shape[0]):
                marks[i] |= (row[i] >= low) & (row[i] <= high)


@njit()
def count_better(
    scores: Any, near: Any, first: int, offsets: Any, documents: Any, known: Any, better: Any, ties: int
) -> None:
    """Add to `better[p]`, for each positive p, how many documents of this block stand before it."""
    # Scores marked in `near` are exact; the others are farther from every positive of their query than their error.
    # Document i of the block is document `first + i`; `documents` are those of the positives, ascending in each query.
    for q in range(scores.shape[0]):
        row, marks = scores[q], near[q]
        for p in range(offsets[q], offsets[q + 1]):
            score, above = known[p], 0
            for i in range(row.shape[0]):
                above += row[i] > score
            for i in range(row.shape[0]):
                if marks[i] and row[i] == score and first + i != documents[p]:
                    before = first + i > documents[p] if ties == LARGER_ID else first + i < documents[p]
                    if ties != 0 and ties != LARGER_ID:
                        own = documents[offsets[q] : offsets[q + 1]]
                        at = np.searchsorted(own, first + i)
                        if at == own.shape[0] or own[at] != first + i:
                            before = ties == PESSIMISTIC
                    above += before
            better[p] += above


@njit()
def choose(
    products: Any,
    nearest: Any,
    offsets: Any,
    first: int,
    last: int,
    starts: Any,
    rows: Any,
    row_offsets: Any,
    codes: Any,
    dead: Any,
    selected: Any,
) -> None:
    """Choose the rows that queries `first:last` score exactly."""
    # products: (centroids, query vectors) their dot products.
    # rows: (m,) the rows in the lists.
    # codes: (m,) the centroids of each row.
    # dead: (rows,) which are deleted.
    # selected: (queries, wanted) filled in with rows; what is left over stays -1.
    seen = np.full(dead.shape[0], -1, np.int32)
    listed = np.full(starts.shape[0] - 1, -1, np.int32)
    listed_rows = np.empty(dead.shape[0], np.int32)
    scores = np.empty(dead.shape[0], np.float32)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        count = 0
        for v in range(a, b):
            for p in range(nearest.shape[1]):
                centroid = nearest[v, p]
                if listed[centroid] == q:
                    continue
                listed[centroid] = q
                for m in range(starts[centroid], starts[centroid + 1]):
                    row = rows[m]
                    if seen[row] != q and not dead[row]:
                        seen[row] = q
                        listed_rows[count] = row
                        count += 1
        best = np.empty(b - a, np.float32)
        for n in range(count):
            row = listed_rows[n]
            best[:] = -np.inf
            for m in range(row_offsets[row], row_offsets[row + 1]):
                product = products[codes[m], a:b]
                for i in range(b - a):
                    best[i] = product[i] if product[i] > best[i] else best[i]
            total = np.float32(0)
            for i in range(b - a):
                total += best[i]
            scores[n] = total
        if count <= selected.shape[1]:
            selected[q, :count] = listed_rows[:count]
        else:
            order = np.argsort(-scores[:count], kind="mergesort")  # stable
            selected[q, :] = listed_rows[order[: selected.shape[1]]]


def rehearse() -> None:
    """Call every loop with few numbers, of the types that all searches have: that compiles it, or loads it."""
    n, d = 4, 3
    vectors, offsets, rows = plain(np.ones((n, d), np.float32)), np.arange(n + 1), np.arange(n)
    scores, out, better = np.ones((n, n), np.float32), np.ones(n, np.float32), np.zeros(n, np.int64)
    near, zeros = np.zeros((n, n), np.bool_), np.zeros(n, np.int32)
    reduce_product(np.ones((n, n), np.float32), offsets, offsets, np.empty(n, np.float32), scores, 0, 0)
    score_pairs(vectors, offsets, rows, vectors, offsets, rows, out)
    mark_near(scores, out, offsets, out, near)
    count_better(scores, near, 0, offsets, rows, out, better, 0)
    nearest, dead, selected = np.zeros((n, 1), np.int64), np.zeros(n, np.bool_), np.full((n, 2), -1, np.int32)
    choose(np.ones((1, n), np.float32), nearest, offsets, 0, n, np.array([0, n]), zeros, offsets, zeros, dead, selected)
    align(np.ones((n, d), np.float32), np.ones((n, d), np.float32), rows, np.zeros(n))
