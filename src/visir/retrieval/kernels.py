"""Compiled kernels of exact search: one scan of approximate scores gives top k and ranks that are exact.

A BLAS product is fast, but its last bits depend on where in the matrix a pair stands: two equal vectors get unequal
scores (measured with OpenBLAS: for 94 to 99 % of the columns, padding or not). So the product only *filters* here. The
score of a pair is *defined* as its dot product in double precision, summed in one fixed order and rounded to float32
(`dot`): a function of the two vectors alone. With `slack` a proven bound on |product - score|, whatever lies outside of
score ± slack is decided by the product; the few pairs inside, and the answers that are kept, are scored exactly.
Results do not depend on the BLAS, on its threads, on block sizes, or on the order of the input.

All of it is one file, of more than 400 lines, because compiled code contains what it calls, and the cache on disk is
renewed when the file of the *caller* changes. A kernel in another file could change, and its old
code would still run.

The answers to a query are kept as `keys`: unsigned 64-bit numbers, smaller is better: score (falling) in the high half,
candidate index (rising, that is the id order) in the low half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit, plain

# Loops run over `range(len)` of a slice, never over `range(start, stop)`, and count in 32 bits: an index that might be
# negative, or a 64-bit counter of 32-bit comparisons, keeps the compiler from using vector instructions (ten times
# slower).

CHUNK = 256
PESSIMISTIC = 1
LARGER_ID = 3


@njit("reassoc")
def dot(query: Any, vector: Any) -> Any:
    """The score of `query` (d, float64 copies of float32 values) and `vector` (d, float32), rounded to float32."""
    # Products of two float32 are exact in float64, so only the order of the sums matters, and the compiled loop has one
    # order, whatever the place of the vectors in memory. (A processor with other vector units may have another: that
    # changes the float64 sum by some 1e-16, and what is left after rounding about once in 1e8 scores.)
    total = 0.0
    for i in range(query.shape[0]):
        total += query[i] * np.float64(vector[i])
    return np.float32(total)


@njit("reassoc")
def lengths(vectors: Any, out: Any) -> None:
    """(n,) float64 Euclidean lengths of float32 rows, each summed in the one order of the compiled loop."""
    for r in range(vectors.shape[0]):
        vector, total = vectors[r], 0.0
        for i in range(vector.shape[0]):
            total += np.float64(vector[i]) * np.float64(vector[i])
        out[r] = np.sqrt(total)


@njit()
def divide_rows(vectors: Any, by: Any) -> None:
    """Divide each float32 row by its own float64 length, in place; the quotient is rounded once."""
    for r in range(vectors.shape[0]):
        vector, length = vectors[r], by[r]
        for i in range(vector.shape[0]):
            vector[i] = np.float32(np.float64(vector[i]) / length)


@njit()
def score_pairs(left: Any, left_rows: Any, right: Any, right_rows: Any, out: Any) -> None:
    """(p,) float32 scores of the pairs `left[left_rows[p]]`, `right[right_rows[p]]`."""
    query = np.empty(left.shape[1], np.float64)
    for p in range(left_rows.shape[0]):
        if p == 0 or left_rows[p] != left_rows[p - 1]:  # pairs come query by query
            _load(left[left_rows[p]], query)
        out[p] = dot(query, right[right_rows[p]])


@njit()
def _key(score: Any, index: Any) -> Any:
    """A number that orders by falling score, then by rising index."""
    plain = np.float32(score + np.float32(0.0))  # makes -0 and 0 one score
    bits = plain.view(np.uint32)
    mask = np.uint32(0x7FFFFFFF)
    if bits > mask:  # a negative score: its bits rise as it falls
        mask = np.uint32(0)
    return (np.uint64(bits ^ mask) << np.uint64(32)) | np.uint64(index)


@njit()
def score_of(key: Any) -> Any:
    """The score inside a key."""
    falling = np.uint32(key >> np.uint64(32))
    mask = np.uint32(0x7FFFFFFF)
    if falling > mask:
        mask = np.uint32(0)
    bits = np.uint32(falling ^ mask)
    return bits.view(np.float32)


@njit()
def _keep_smallest(keys: Any, n: int, k: int) -> Any:
    """Move the k smallest of `keys[:n]` to the front (unsorted) and return the largest of them: Hoare's selection."""
    left, right = 0, n - 1
    while left < right:
        pivot = keys[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            right = j
        elif k - 1 >= i:
            left = i
        else:
            break
    return keys[k - 1]


@njit()
def _reaching(scores: Any, low: Any) -> Any:
    """How many of `scores` are `low` or more."""
    total = np.uint32(0)
    for i in range(scores.shape[0]):
        total = np.uint32(total + np.uint32(scores[i] >= low))
    return np.int64(total)


@njit()
def _above_and_near(scores: Any, low: Any, high: Any) -> Any:
    """How many of `scores` are above `high`, and how many are from `low` to `high`."""
    above, reaching = np.uint32(0), np.uint32(0)
    for i in range(scores.shape[0]):
        above = np.uint32(above + np.uint32(scores[i] > high))
        reaching = np.uint32(reaching + np.uint32(scores[i] >= low))
    return np.int64(above), np.int64(reaching) - np.int64(above)


@njit()
def _maxima_of_16(scores: Any, maxima: Any) -> None:
    """`maxima[g]` of the scores 16 g to 16 g + 15; the last group may be shorter."""
    whole = scores.shape[0] // 16
    for g in range(whole):
        group = scores[16 * g : 16 * g + 16]
        highest = group[0]
        for i in range(16):
            highest = group[i] if group[i] > highest else highest
        maxima[g] = highest
    if whole < maxima.shape[0]:
        maxima[whole] = scores[16 * whole :].max()


@njit()
def _maxima_of_4(scores: Any, maxima: Any) -> None:
    """`maxima[g]` of the scores 4 g to 4 g + 3; the last group may be shorter."""
    whole = scores.shape[0] // 4
    for g in range(whole):
        a, b, c, d = scores[4 * g], scores[4 * g + 1], scores[4 * g + 2], scores[4 * g + 3]
        ab = a if a > b else b
        cd = c if c > d else d
        maxima[g] = ab if ab > cd else cd
    if whole < maxima.shape[0]:
        maxima[whole] = scores[4 * whole :].max()


@njit()
def _floor(maxima: Any, k: int) -> Any:
    """A value that at least k scores reach, close to the k-th largest: that of the group maxima, because each of the
    best k groups has a member that reaches it. Bracketed by bisection: a few counts are cheaper than a selection."""
    low = high = maxima[0]
    for i in range(maxima.shape[0]):
        low, high = min(low, maxima[i]), max(high, maxima[i])
    for _ in range(14):
        middle = np.float32(0.5) * low + np.float32(0.5) * high
        reached = _reaching(maxima, middle)
        if reached >= k:
            low = middle
            if reached <= k + k // 16:
                break
        else:
            high = middle
    return low


@njit()
def _take_top(
    scores: Any,
    slack: Any,
    first: int,
    k: int,
    keys: Any,
    fill: Any,
    floor: Any,
    crowded: Any,
    q: int,
    accepted: Any,
    room: Any,
) -> None:
    """Bring the candidates of one block that may be among the best k into `keys[q]`, by their approximate scores."""
    # `floor[q]` is the k-th best approximate score so far. The k-th best score is at most `slack` below it, and a score
    # at most `slack` above its approximation: what is more than twice `slack` below the floor is out, for certain. The
    # rest is kept; where it does not fit (many near-equal scores) the query is marked as crowded.
    if crowded[q]:
        return
    width = scores.shape[0]
    size = 16 if fill[q] >= k or width >= 32 * k else 4
    maxima = room[: (width + size - 1) // size]
    if size == 16:
        _maxima_of_16(scores, maxima)
    else:
        _maxima_of_4(scores, maxima)
    twice = np.float32(2.0) * slack
    low = floor[q] - twice
    if fill[q] < k and maxima.shape[0] >= k:
        low = _floor(maxima, k) - twice
    n = 0
    for g in range(maxima.shape[0]):
        if maxima[g] >= low:
            for i in range(g * size, min(g * size + size, width)):
                accepted[n] = np.uint64(i)
                n += scores[i] >= low
    if n == 0:
        return
    for m in range(n):
        at = np.int64(accepted[m])
        accepted[m] = _key(scores[at], first + at)
    for m in range(fill[q]):
        accepted[n + m] = keys[q, m]
    n += fill[q]
    filled = min(n, k)
    if n > k:
        floor[q] = score_of(_keep_smallest(accepted, n, k))
        low = floor[q] - twice
        for m in range(k, n):
            if score_of(accepted[m]) >= low:
                accepted[filled] = accepted[m]
                filled += 1
        if filled > keys.shape[1]:
            crowded[q] = True
            return
    for m in range(filled):
        keys[q, m] = accepted[m]
    fill[q] = filled


@njit()
def rescore(
    start: int,
    stop: int,
    keys: Any,
    fill: Any,
    queries: Any,
    rows: Any,
    vectors: Any,
    first: int,
) -> None:
    """Give the candidates in `keys[start:stop]` that are in this block (`first` and on) their exact scores."""
    # Query q has the vector `queries[rows[q - start]]`.
    query = np.empty(queries.shape[1], np.float64)
    last = first + vectors.shape[0]
    for q in range(start, stop):
        _load(queries[rows[q - start]], query)
        for m in range(fill[q]):
            at = np.int64(keys[q, m] & np.uint64(0xFFFFFFFF))
            if first <= at < last:
                keys[q, m] = _key(dot(query, vectors[at - first]), at)


@njit()
def best_of_one(scores: Any, slack: Any, query: Any, vectors: Any, k: int, indices: Any, values: Any) -> bool:
    """The best k of all vectors for one query, whose products with them are within `slack` of the exact scores;
    whether there is room for all that are too close to tell."""
    n = scores.shape[0]
    keys, fill = np.empty((1, k + 16 + k // 8), np.uint64), np.zeros(1, np.int64)
    floor, crowded = np.full(1, np.float32(-np.inf)), np.zeros(1, np.bool_)
    _take_top(
        scores, slack, 0, k, keys, fill, floor, crowded, 0, np.empty(n + keys.shape[1], np.uint64),
        np.empty(n, np.float32),
    )  # fmt: skip
    if not crowded[0]:
        rescore(0, 1, keys, fill, query, np.zeros(1, np.int64), vectors, 0)
        finish(0, 1, k, keys, fill, indices, values)
    return not crowded[0]


@njit()
def best_candidates(
    start: int, stop: int, queries: Any, vectors: Any, rows: Any, places: Any, k: int,
    documents: Any, scores: Any, fill: Any,
) -> None:  # fmt: skip
    """Score the candidates of each of the queries `start:stop` exactly: the best k, by falling score, ties by place."""
    # Candidate c of query q is `vectors[rows[q, c]]` and has the place `places[q, c]` among the sorted ids; -1: none.
    query, keys = np.empty(queries.shape[1], np.float64), np.empty(rows.shape[1], np.uint64)
    for q in range(start, stop):
        _load(queries[q], query)
        n = 0
        for c in range(rows.shape[1]):
            if rows[q, c] >= 0 and places[q, c] >= 0:
                keys[n] = _key(dot(query, vectors[rows[q, c]]), places[q, c])
                n += 1
        if n > k:
            _keep_smallest(keys, n, k)
            n = k
        best = np.sort(keys[:n])
        for m in range(n):
            documents[q, m] = np.int64(best[m] & np.uint64(0xFFFFFFFF))
            scores[q, m] = score_of(best[m])
        fill[q] = n


@njit()
def take_exactly(
    q: int, k: int, keys: Any, fill: Any, scores: Any, slack: Any, query: Any, vectors: Any, first: int
) -> None:
    """Keep in `keys[q]` the best k of one block by exact score: for crowded queries."""
    # `scores` (n,) are float64 products, within `slack` of the exact scores; only what may be among the best is scored.
    seen = np.empty(2 * k, np.uint64)
    n = fill[q]
    for m in range(n):
        seen[m] = keys[q, m]
    low = -np.inf
    if n == k:
        low = np.float64(score_of(_keep_smallest(seen, n, k))) - slack
    for i in range(scores.shape[0]):
        if scores[i] >= low:
            seen[n] = _key(dot(query, vectors[i]), first + i)
            n += 1
            if n == 2 * k:
                low = np.float64(score_of(_keep_smallest(seen, n, k))) - slack
                n = k
    if n > k:
        _keep_smallest(seen, n, k)
    fill[q] = min(n, k)
    for m in range(fill[q]):
        keys[q, m] = seen[m]


@njit()
def finish(start: int, stop: int, k: int, keys: Any, fill: Any, indices: Any, scores: Any) -> None:
    """The best k of `keys[start:stop]` (exact by now), in order, as candidate indices and scores."""
    for q in range(start, stop):
        if fill[q] > k:
            _keep_smallest(keys[q], fill[q], k)
        best = keys[q, :k]
        best.sort()
        for m in range(k):
            indices[q, m] = np.int32(best[m] & np.uint64(0xFFFFFFFF))
            scores[q, m] = score_of(best[m])


@njit()
def _is_positive(documents: Any, document: int) -> bool:
    """Whether `document` is in the sorted `documents`."""
    at = np.searchsorted(documents, document)
    return bool(at < documents.shape[0] and documents[at] == document)


@njit()
def _count_better(
    scores: Any,
    slack: Any,
    vector: Any,
    query: Any,
    vectors: Any,
    first: int,
    offsets: Any,
    documents: Any,
    known: Any,
    better: Any,
    q: int,
    ties: int,
) -> Any:
    """Add to `better[p]`, for each positive p of query q, how many candidates of this block stand before it."""
    # `vector` is that of the query; `query` is room for its copy in float64, made only where it is needed. Returns how
    # many numbers the near ones made it look at: scores one by one, and components of vectors.
    loaded = False
    looked = 0
    for p in range(offsets[q], offsets[q + 1]):
        score = known[p]
        low, high = score - slack, score + slack
        for start in range(0, scores.shape[0], CHUNK):
            part = scores[start : start + CHUNK]
            above, near = _above_and_near(part, low, high)
            better[p] += above
            if near == 0 or (near == 1 and 0 <= documents[p] - first - start < part.shape[0]):
                continue  # nothing to look at, or the positive itself
            if not loaded:
                _load(vector, query)
                loaded = True
            for i in range(part.shape[0]):
                document = first + start + i
                if part[i] < low or part[i] > high or document == documents[p]:
                    continue
                other = dot(query, vectors[start + i])
                if other > score:
                    better[p] += 1
                elif other == score:
                    before = document > documents[p] if ties == LARGER_ID else document < documents[p]
                    if (
                        ties != 0
                        and ties != LARGER_ID
                        and not _is_positive(documents[offsets[q] : offsets[q + 1]], document)
                    ):
                        before = ties == PESSIMISTIC
                    better[p] += before
            looked += part.shape[0] + near * query.shape[0]
    return looked


@njit()
def _load(vector: Any, query: Any) -> None:
    for i in range(vector.shape[0]):
        query[i] = vector[i]


@njit()
def scan_rows(
    tile: Any,
    start: int,
    stop: int,
    queries: Any,
    query_of: Any,
    keep: Any,
    slack: Any,
    vectors: Any,
    first: int,
    k: int,
    keys: Any,
    fill: Any,
    floor: Any,
    crowded: Any,
    offsets: Any,
    documents: Any,
    known: Any,
    better: Any,
    ties: int,
) -> Any:
    """Scan rows `start:stop` of a tile of approximate scores."""
    # Row r is of `queries[r]` and to query `query_of[r]` (-1: to none), column c to candidate `first + c` of vector
    # `vectors[c]`. Scores of this tile are within `slack` of the exact ones, those of all tiles within `keep`. Returns
    # what `_count_better` does.
    width = tile.shape[1]
    query = np.empty(queries.shape[1], np.float64)
    accepted = np.empty(width + keys.shape[1], np.uint64)
    room = np.empty(width, np.float32)
    looked = 0
    for r in range(start, stop):
        q = query_of[r]
        if q < 0:
            continue
        _take_top(tile[r], keep, first, k, keys, fill, floor, crowded, q, accepted, room)
        if offsets[q] < offsets[q + 1]:
            looked += _count_better(
                tile[r], slack, queries[r], query, vectors, first, offsets, documents, known, better, q, ties
            )
    return looked


@njit()
def scan_columns(
    tile: Any,
    start: int,
    stop: int,
    queries: Any,
    query_of: Any,
    keep: Any,
    slack: Any,
    vectors: Any,
    first: int,
    k: int,
    keys: Any,
    fill: Any,
    floor: Any,
    crowded: Any,
    offsets: Any,
    documents: Any,
    known: Any,
    better: Any,
    ties: int,
) -> Any:
    """The same for columns `start:stop`: column c belongs to `queries[c]`, row r to candidate `first + r`."""
    # Eight columns at a time are laid out as rows (more streams of writes than a cache has ways are twice as slow), so
    # that both tasks are scanned by the same code at the same speed.
    height = tile.shape[0]
    query = np.empty(queries.shape[1], np.float64)
    accepted = np.empty(height + keys.shape[1], np.uint64)
    room = np.empty(height, np.float32)
    strip = np.empty((8, height + 16), np.float32)  # 16 more, so that the rows do not fall on one cache set
    looked = 0
    for at in range(start, stop, 8):
        columns = min(8, stop - at)
        if columns == 8:  # a fixed number is unrolled: three times faster
            for r in range(height):
                for c in range(8):
                    strip[c, r] = tile[r, at + c]
        else:
            for r in range(height):
                for c in range(columns):
                    strip[c, r] = tile[r, at + c]
        for c in range(columns):
            q = query_of[at + c]
            if q < 0:
                continue
            scores = strip[c, :height]
            _take_top(scores, keep, first, k, keys, fill, floor, crowded, q, accepted, room)
            if offsets[q] < offsets[q + 1]:
                looked += _count_better(
                    scores, slack, queries[at + c], query, vectors, first, offsets, documents, known, better, q, ties
                )
    return looked


def rehearse() -> None:
    """Call every loop with few numbers, of the types that all searches have: that compiles it, or loads it."""
    k, n, d = 2, 40, 4
    vectors, slack, rows = np.ones((n, d), np.float32), np.float32(1e-6), np.arange(n)
    measured, scores = np.empty(n), np.empty(n, np.float32)
    lengths(vectors, measured)
    lengths(plain(vectors), measured)
    divide_rows(vectors, measured)
    score_pairs(vectors, rows, vectors, rows, scores)
    keys, fill, better = np.zeros((n, k + 16), np.uint64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    state = (k, keys, fill, np.full(n, -np.inf, np.float32), np.zeros(n, np.bool_))
    positives = (np.arange(n + 1), np.arange(n), scores, better, 0)
    for loop in (scan_rows, scan_columns):
        fill[:] = 0
        loop(np.ones((n, n), np.float32), 0, n, vectors, rows, slack, slack, vectors, 0, *state, *positives)
    fill[:] = k
    rescore(0, n, keys, fill, vectors, rows, vectors, 0)
    indices, best = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    take_exactly(fill[0] * 0, k, keys, fill, np.ones(n), 1e-6, np.ones(d), vectors, 0)
    finish(0, n, k, keys, fill, indices, best)
    single = vectors[:1]
    best_of_one(np.ones(n, np.float32), slack, single, vectors, k, indices[:1], best[:1])
    best_candidates(0, 1, single, vectors, rows[None], rows[None], k, np.empty((1, k), np.int64), best[:1], fill[:1])
