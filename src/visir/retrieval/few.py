"""What the compiled loops of exact search do, in NumPy and into the same arrays: no search waits for the compiler.

Scores are what `kernels` computes: dot products in double precision, rounded to float32. The order of the sums is
another, which changes what is left after rounding about once in 1e8 scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 8192


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


def rounded(scores: NDArray[Any]) -> NDArray[np.float32]:
    """Scores as float32; those that are too large become infinite, and are refused afterwards, by name."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


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
    documents: Any, scores: Any, fill: Any,
) -> None:  # fmt: skip
    """As `kernels.best_candidates`."""
    for q in range(start, stop):
        own = np.flatnonzero((rows[q] >= 0) & (places[q] >= 0))
        exact = np.empty(len(own), np.float32)
        score_pairs(queries, np.full(len(own), q), vectors, rows[q, own], exact)
        best = np.lexsort((places[q, own], -exact))[:k]
        fill[q] = len(best)
        documents[q, : len(best)], scores[q, : len(best)] = places[q, own[best]], exact[best] + np.float32(0)  # no -0


_NUMBERS = 2**22
"""Scores that are looked at together: 16 MiB."""
_NONE = np.uint64(2**64 - 1)


def key_of(scores: NDArray[np.float32], places: NDArray[Any]) -> NDArray[np.uint64]:
    """As `kernels._key`."""
    bits = (scores + np.float32(0)).view(np.uint32)
    falling = np.where(bits > 0x7FFFFFFF, bits, bits ^ np.uint32(0x7FFFFFFF))
    return np.asarray((falling.astype(np.uint64) << np.uint64(32)) | places.astype(np.uint64))


def score_of(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    """As `kernels.score_of`."""
    falling = (keys >> np.uint64(32)).astype(np.uint32)
    bits: NDArray[np.uint32] = np.where(falling > 0x7FFFFFFF, falling, falling ^ np.uint32(0x7FFFFFFF))
    return bits.view(np.float32)


def place_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The places in keys."""
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def scan_rows(
    tile: Any, start: int, stop: int, queries: Any, query_of: Any, keep: Any, slack: Any, vectors: Any, first: int,
    k: int, keys: Any, fill: Any, floor: Any, crowded: Any, offsets: Any, documents: Any, known: Any, better: Any,
    ties: int,
) -> int:  # fmt: skip
    """As `kernels.scan_rows`."""
    rows, looked = start + np.flatnonzero(query_of[start:stop] >= 0), 0
    step = max(_NUMBERS // tile.shape[1], 1)
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        scores, query = np.ascontiguousarray(tile[some]), query_of[some]
        open_ones = ~crowded[query]
        take_top(scores[open_ones], keep, first, k, keys, fill, floor, crowded, query[open_ones])

        def exact(row: Any, column: Any) -> NDArray[np.float32]:
            others = np.empty(len(row), np.float32)
            score_pairs(queries, some[row], vectors, column, others)  # noqa: B023 (called before the next turn)
            return others

        near = count_better(scores, slack, exact, query, first, offsets, documents, known, better, ties)
        looked += near * queries.shape[1]
    return looked


def scan_columns(tile: Any, start: int, stop: int, *others: Any) -> int:
    """As `kernels.scan_columns`."""
    return scan_rows(tile.T, start, stop, *others)


def take_top(
    scores: Any, slack: Any, first: int, k: int, keys: Any, fill: Any, floor: Any, crowded: Any, query: Any
) -> None:
    """Bring what may be among the best k of each row of a block into the keys of its query; see `kernels._take_top`."""
    # slack: None where the scores are exact.
    width, capacity = scores.shape[1], keys.shape[1]
    low = floor[query]
    if width >= k:
        low = np.maximum(low, np.partition(scores, width - k, axis=1)[:, width - k])
    twice = np.float32(2) * np.float32(slack or 0)
    row, column = np.nonzero(scores >= (low - twice)[:, None])
    held = np.arange(capacity) < fill[query][:, None]
    owner = np.concatenate([row, np.nonzero(held)[0]])
    every = np.concatenate([key_of(scores[row, column], first + column), keys[query][held]])
    order = np.lexsort((every, owner))
    owner, every = owner[order], every[order]
    counts = np.bincount(owner, minlength=len(query))
    begins = np.cumsum(counts) - counts
    many = np.flatnonzero(counts > k)
    floor[query[many]] = score_of(every[begins[many] + k - 1])
    low = np.where(counts > k, floor[query] - twice, np.float32(-np.inf))
    rank = np.arange(len(owner)) - begins[owner]
    chosen = (rank < k) | ((slack is not None) & (score_of(every) >= low[owner]))
    filled = np.bincount(owner[chosen], minlength=len(query))
    crowded[query] |= filled > capacity
    fitting = chosen & (rank < capacity)
    keys[query[owner[fitting]], rank[fitting]] = every[fitting]
    fill[query] = np.minimum(filled, capacity)


def count_better(
    scores: Any, slack: Any, exact: Any, query: Any, first: int, offsets: Any, documents: Any, known: Any, better: Any,
    ties: int,
) -> int:  # fmt: skip
    """Count what stands before each positive of the query of each row; how many were too close to tell."""
    counts = offsets[query + 1] - offsets[query]
    row = np.repeat(np.arange(len(query)), counts)
    positive = np.repeat(offsets[query] - (np.cumsum(counts) - counts), counts) + np.arange(len(row))
    looked, step = 0, max(_NUMBERS // max(scores.shape[1], 1), 1)
    for begin in range(0, len(row), step):
        rows, own = row[begin : begin + step], positive[begin : begin + step]
        others, middle = scores[rows], known[own][:, None]
        better[own] += (others > middle + slack).sum(axis=1)
        near = (others >= middle - slack) & (others <= middle + slack)
        place = documents[own] - first
        inside = (place >= 0) & (place < scores.shape[1])
        near[np.flatnonzero(inside), place[inside]] = False  # the positive itself
        which, column = np.nonzero(near)
        if len(which):
            count_near(
                exact(rows[which], column), own[which], query[rows[which]], first + column, offsets, documents, known,
                better, ties,
            )  # fmt: skip
        looked += len(which)
    return looked


def count_near(
    scores: Any, positive: Any, query: Any, document: Any, offsets: Any, documents: Any, known: Any, better: Any,
    ties: int,
) -> None:  # fmt: skip
    """Add to `better` those pairs of a positive and another document, with exact scores, where that stands before."""
    before = document > documents[positive] if ties == 3 else document < documents[positive]
    if ties in (1, 2):  # pessimistic, optimistic: only positives among themselves are in the order of ids
        own = [np.isin(d, documents[offsets[q] : offsets[q + 1]]) for d, q in zip(document, query, strict=True)]
        before = np.where(own, before, ties == 1)
    ahead = (scores > known[positive]) | ((scores == known[positive]) & before)
    np.add.at(better, positive[ahead], 1)


def rescore(start: int, stop: int, keys: Any, fill: Any, queries: Any, rows: Any, vectors: Any, first: int) -> None:
    """As `kernels.rescore`."""
    query, slot = np.nonzero(np.arange(keys.shape[1]) < fill[start:stop, None])
    place = place_of(keys[start + query, slot])
    inside = (place >= first) & (place < first + len(vectors))
    query, slot, place = query[inside], slot[inside], place[inside]
    exact = np.empty(len(query), np.float32)
    score_pairs(queries, rows[query], vectors, place - first, exact)
    keys[start + query, slot] = key_of(exact, place)


def take_exactly(
    q: int, k: int, keys: Any, fill: Any, scores: Any, slack: Any, query: Any, vectors: Any, first: int
) -> None:
    """As `kernels.take_exactly`."""
    low, held = -np.inf, keys[q, : fill[q]]
    if len(held) == k:
        low = float(score_of(held.max()[None])[0]) - slack
    if len(scores) >= k:
        low = max(low, np.partition(scores, len(scores) - k)[len(scores) - k] - 2 * slack)
    place = np.flatnonzero(scores >= low)
    exact = np.empty(len(place), np.float32)
    score_pairs(query[None], np.zeros(len(place), np.int64), vectors, place, exact)
    best = np.sort(np.concatenate([held, key_of(exact, first + place)]))[:k]
    fill[q], keys[q, : len(best)] = len(best), best


def finish(start: int, stop: int, k: int, keys: Any, fill: Any, indices: Any, scores: Any) -> None:
    """As `kernels.finish`."""
    for begin in range(start, stop, step := max(_NUMBERS // keys.shape[1], 1)):
        some = slice(begin, min(begin + step, stop))
        best = np.where(np.arange(keys.shape[1]) < fill[some, None], keys[some], _NONE)
        best = np.sort(best, axis=1)[:, :k]
        indices[some], scores[some] = place_of(best), score_of(best)
