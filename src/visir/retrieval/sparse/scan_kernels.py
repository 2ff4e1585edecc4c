"""Compiled kernels of the exact sparse scan: every score of a block, its best candidates, and exact counts.

A score is *defined* as the dot product of float32 weights, summed in float64 in ascending term order, rounded to
float32. A product of two float32 numbers is exact in float64, so only the order of the sums matters. Term-at-a-time
scoring in ascending terms keeps that order for every candidate, and adding the 0 of a term that a candidate lacks
changes no sum. So, unlike in the dense scan, what is summed *is* the score: nothing has to be scored a second time.

Weights are above 0, so scores are never negative. The answers to a query are kept as keys, unsigned 64-bit numbers,
smaller is better: the bits of the score (falling) in the high half, the candidate's place (rising, that is the id
order) in the low half.

These kernels call none of other files: the cache of compiled code on disk is renewed when the file of the caller
changes, not when that of what it calls does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit

CHUNK = 256
PESSIMISTIC = 1
LARGER_ID = 3


@njit()
def invert(offsets: Any, terms: Any, values: Any, vocabulary: int, frequent: int) -> Any:
    """The inverted lists of one block of candidates, given as rows (CSR)."""
    # A term that `frequent` candidates or more have is laid out as a column, one weight for each of them (0 where it is
    # not), because adding a column runs in vector instructions; the rest as lists of candidates and their weights.
    # Returns (starts, documents, weights, column_of, columns): the list of term t is `starts[t]:starts[t + 1]`;
    # `column_of[t]` is its row in `columns`, -1 if it has a list.
    width = offsets.shape[0] - 1
    counts = np.zeros(vocabulary, np.int64)
    for j in range(terms.shape[0]):
        counts[terms[j]] += 1
    starts = np.empty(vocabulary + 1, np.int64)
    column_of = np.full(vocabulary, np.int32(-1))
    starts[0] = 0
    wide = 0
    for t in range(vocabulary):
        listed = counts[t]
        if listed >= frequent:
            column_of[t] = wide
            wide += 1
            listed = 0
        starts[t + 1] = starts[t] + listed
    documents = np.empty(starts[vocabulary], np.int32)
    weights = np.empty(starts[vocabulary], np.float32)
    columns = np.zeros((wide, width), np.float32)
    at = starts[:vocabulary].copy()
    for i in range(width):
        for j in range(offsets[i], offsets[i + 1]):
            t = terms[j]
            if column_of[t] >= 0:
                columns[column_of[t], i] = values[j]
            else:
                documents[at[t]] = i
                weights[at[t]] = values[j]
                at[t] += 1
    return starts, documents, weights, column_of, columns


@njit()
def _add_column(sums: Any, column: Any, weight: Any) -> None:
    for i in range(sums.shape[0]):
        sums[i] += weight * np.float64(column[i])


@njit()
def _add_list(sums: Any, documents: Any, weights: Any, weight: Any) -> None:
    for p in range(documents.shape[0]):
        sums[documents[p]] += weight * np.float64(weights[p])


@njit()
def _score_row(terms: Any, values: Any, inverted: Any, sums: Any, out: Any) -> None:
    """The scores of one query (terms ascending) and every candidate of a block into `out` (width,)."""
    starts, documents, weights, column_of, columns = inverted
    sums[:] = 0.0
    for j in range(terms.shape[0]):
        t, weight = terms[j], np.float64(values[j])
        if column_of[t] >= 0:
            _add_column(sums, columns[column_of[t]], weight)
        else:
            first, last = starts[t], starts[t + 1]
            _add_list(sums, documents[first:last], weights[first:last], weight)
    for i in range(out.shape[0]):
        out[i] = np.float32(sums[i])


@njit()
def score_pairs(left: Any, left_rows: Any, right: Any, right_rows: Any, out: Any) -> None:
    """(p,) float32 scores of pairs of rows of two sides, each side as (offsets, terms, values)."""
    for p in range(left_rows.shape[0]):
        i, end = left[0][left_rows[p]], left[0][left_rows[p] + 1]
        j, stop = right[0][right_rows[p]], right[0][right_rows[p] + 1]
        total = 0.0
        while i < end and j < stop:
            if left[1][i] < right[1][j]:
                i += 1
            elif left[1][i] > right[1][j]:
                j += 1
            else:
                total += np.float64(left[2][i]) * np.float64(right[2][j])
                i += 1
                j += 1
        out[p] = np.float32(total)


@njit()
def _key(score: Any, place: Any) -> Any:
    """A number that orders by falling score (never below 0), then by rising place."""
    bits = np.uint32(np.float32(score).view(np.uint32) ^ np.uint32(0x7FFFFFFF))
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(place)


@njit()
def _score_of(key: Any) -> Any:
    """The score inside a key."""
    bits = np.uint32(np.uint32(key >> np.uint64(32)) ^ np.uint32(0x7FFFFFFF))
    return bits.view(np.float32)


@njit()
def _above(scores: Any, low: Any) -> Any:
    total = np.uint32(0)
    for i in range(scores.shape[0]):
        total = np.uint32(total + np.uint32(scores[i] > low))
    return np.int64(total)


@njit()
def _above_and_equal(scores: Any, score: Any) -> Any:
    above, reaching = np.uint32(0), np.uint32(0)
    for i in range(scores.shape[0]):
        above = np.uint32(above + np.uint32(scores[i] > score))
        reaching = np.uint32(reaching + np.uint32(scores[i] >= score))
    return np.int64(above), np.int64(reaching) - np.int64(above)


@njit()
def _keep_best(seen: Any, n: int, k: int) -> Any:
    """Move the k smallest of `seen[:n]` (all different) to the front; the score of the last of them."""
    best = np.partition(seen[:n], k - 1)
    seen[:k] = best[:k]
    return _score_of(best[k - 1])


@njit()
def _take_best(scores: Any, first: int, q: int, k: int, keys: Any, fill: Any, floor: Any, seen: Any) -> None:
    """Bring the candidates of one block that are among the best k so far into `keys[q]`; `floor[q]` is their lowest
    score once there are k."""
    # Blocks come in ascending places: a later candidate whose score equals the floor stands behind all that are kept.
    # `seen` is room for 2 k + CHUNK keys.
    n, low, loaded = fill[q], floor[q], False
    for start in range(0, scores.shape[0], CHUNK):
        part = scores[start : start + CHUNK]
        if _above(part, low) == 0:
            continue
        if not loaded:
            for m in range(n):
                seen[m] = keys[q, m]
            loaded = True
        for i in range(part.shape[0]):
            seen[n] = _key(part[i], first + start + i)
            n += part[i] > low
        if n >= 2 * k:
            low = _keep_best(seen, n, k)
            n = k
    if not loaded:
        return
    if n >= k:
        low = _keep_best(seen, n, k)
        n = k
    for m in range(n):
        keys[q, m] = seen[m]
    fill[q], floor[q] = n, low


@njit()
def _is_positive(documents: Any, document: int) -> bool:
    at = np.searchsorted(documents, document)
    return bool(at < documents.shape[0] and documents[at] == document)


@njit()
def _count_better(
    scores: Any, first: int, q: int, offsets: Any, documents: Any, known: Any, better: Any, ties: int
) -> None:
    """Add to `better[p]`, for each positive p of query q, how many candidates of this block stand before it."""
    positives = documents[offsets[q] : offsets[q + 1]]
    for p in range(offsets[q], offsets[q + 1]):
        score = known[p]
        for start in range(0, scores.shape[0], CHUNK):
            part = scores[start : start + CHUNK]
            above, equal = _above_and_equal(part, score)
            better[p] += above
            if equal == 0 or (equal == 1 and 0 <= documents[p] - first - start < part.shape[0]):
                continue  # nothing ties, or the positive with itself
            for i in range(part.shape[0]):
                document = first + start + i
                if part[i] == score and document != documents[p]:
                    before = document > documents[p] if ties == LARGER_ID else document < documents[p]
                    if ties != 0 and ties != LARGER_ID and not _is_positive(positives, document):
                        before = ties == PESSIMISTIC
                    better[p] += before


@njit()
def scan_rows(
    tile: Any,
    start: int,
    stop: int,
    rows: Any,
    inverted: Any,
    query_of: Any,
    first: int,
    k: int,
    keys: Any,
    fill: Any,
    floor: Any,
    offsets: Any,
    documents: Any,
    known: Any,
    better: Any,
    ties: int,
) -> None:
    """Score rows `start:stop` of a tile and scan them: row r of `rows` (offsets, terms, values) is query `query_of[r]`
    (-1: none), column c is candidate `first + c`, a row of what was `inverted`."""
    row_offsets, terms, values = rows
    sums = np.empty(tile.shape[1], np.float64)
    seen = np.empty(2 * k + CHUNK + 1, np.uint64)
    for r in range(start, stop):
        a, b = row_offsets[r], row_offsets[r + 1]
        _score_row(terms[a:b], values[a:b], inverted, sums, tile[r])
        q = query_of[r]
        if q >= 0:
            _take_best(tile[r], first, q, k, keys, fill, floor, seen)
            _count_better(tile[r], first, q, offsets, documents, known, better, ties)


@njit()
def scan_columns(
    tile: Any,
    start: int,
    stop: int,
    query_of: Any,
    first: int,
    k: int,
    keys: Any,
    fill: Any,
    floor: Any,
    offsets: Any,
    documents: Any,
    known: Any,
    better: Any,
    ties: int,
) -> None:
    """Scan columns `start:stop` of a scored tile: column c is query `query_of[c]`, row r is candidate `first + r`."""
    # Eight columns at a time are laid out as rows, so that both tasks are scanned by the same code.
    height = tile.shape[0]
    seen = np.empty(2 * k + CHUNK + 1, np.uint64)
    strip = np.empty((8, height + 16), np.float32)  # 16 more, so that the rows do not fall on one cache set
    for at in range(start, stop, 8):
        columns = min(8, stop - at)
        if columns == 8:  # a fixed number is unrolled
            for r in range(height):
                for c in range(8):
                    strip[c, r] = tile[r, at + c]
        else:
            for r in range(height):
                for c in range(columns):
                    strip[c, r] = tile[r, at + c]
        for c in range(columns):
            q = query_of[at + c]
            if q >= 0:
                _take_best(strip[c, :height], first, q, k, keys, fill, floor, seen)
                _count_better(strip[c, :height], first, q, offsets, documents, known, better, ties)


@njit()
def finish(start: int, stop: int, k: int, keys: Any, indices: Any, scores: Any) -> None:
    """The k keys of each of the queries `start:stop`, in order, as candidate places and scores."""
    for q in range(start, stop):
        best = np.sort(keys[q, :k])
        for m in range(k):
            indices[q, m] = np.int32(best[m] & np.uint64(0xFFFFFFFF))
            scores[q, m] = _score_of(best[m])


def rehearse() -> None:
    """Call every loop with few numbers, of the types that all searches have: that compiles it, or loads it."""
    k, n, dimension = 2, 12, 3
    part: Any = np.arange(n + 1), np.zeros(n, np.int32), np.ones(n, np.float32)
    rows, scores, tile = np.arange(n), np.ones(n, np.float32), np.empty((n, n), np.float32)
    score_pairs(part, rows, part, rows, scores)
    keys, better = np.zeros((n, k + 16), np.uint64), np.zeros(n, np.int64)
    state: Any = (k, keys, np.zeros(n, np.int64), np.full(n, -np.inf, np.float32))
    positives: Any = (np.arange(n + 1), np.arange(n), scores, better, 0)
    scan_rows(tile, 0, n, part, invert(part[0], part[1], part[2], dimension, 1), rows, 0, *state, *positives)
    scan_columns(tile, 0, n, rows, 0, *state, *positives)
    finish(0, n, k, keys, np.empty((n, k), np.int32), np.empty((n, k), np.float32))
