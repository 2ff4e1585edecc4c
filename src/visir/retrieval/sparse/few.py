"""What the loops of sparse search do, in NumPy and SciPy and into the same arrays: none waits for the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import visir.retrieval.few as dense
from visir.records.columns import owners, rows_of_spans
from visir.retrieval.sparse.kernels import BLOCK, EDGES, GRADE, GRADES, LEVELS

Array = NDArray[Any]


def count(terms: Array, values: Array, frequency: Array, maxima: Array) -> None:
    """As `kernels.count`."""
    frequency += np.bincount(terms, minlength=len(frequency))
    np.maximum.at(maxima, terms, values)


_AT_ONCE = 2**20
"""Postings that are laid out together: some 60 MB."""


def _pieces(offsets: Array) -> Iterator[tuple[int, int]]:
    """Documents whose postings are laid out together, as (first, last)."""
    first, end = 0, len(offsets) - 1
    while first < end:
        last = max(int(np.searchsorted(offsets, offsets[first] + _AT_ONCE, side="right")) - 1, first + 1)
        yield first, last
        first = last


def _cells(
    first: int, last: int, offsets: Array, terms: Array, values: Array, rows: Array, maxima: Array, blocks: int
) -> tuple[Array, ...]:
    """The document, row, byte, and cell (row, block, grade) of each posting, and the gap to the row before it."""
    begin, end = offsets[first], offsets[last]
    lengths = np.diff(offsets[first : last + 1])
    document, row = np.repeat(np.arange(first, last), lengths), rows[terms[begin:end]].astype(np.int64)
    share = values[begin:end].astype(np.float64) / maxima[row].astype(np.float64)
    byte = np.clip(np.ceil(share * 255.0).astype(np.int64), 1, 255)
    before = np.concatenate([[-1], row[:-1]]) if len(row) else row
    before[(offsets[first:last] - begin)[lengths > 0]] = -1
    return document, row, byte, (row * blocks + document // BLOCK) * GRADES + GRADE[byte], row - before - 1


def count_grades(
    offsets: Array, terms: Array, values: Array, rows: Array, maxima: Array, counts: Array, gap_starts: Array
) -> None:
    """As `kernels.count_grades`."""
    for first, last in _pieces(offsets):
        document, _, _, cell, gap = _cells(first, last, offsets, terms, values, rows, maxima, counts.shape[1])
        counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        gap_starts[first + 1 : last + 1] = np.bincount(document - first, 1 + gap // 255, last - first)
    np.cumsum(gap_starts, out=gap_starts)


def lay_out(counts: Array, levels: Array) -> int:
    """As `kernels.lay_out`."""
    last = GRADES - np.argmax(counts[:, :, ::-1] > 0, axis=2, keepdims=True)
    listed = (np.arange(GRADES) < last) & counts.any(axis=2, keepdims=True)
    sizes = np.where(listed, np.maximum(counts, 1), 0)
    levels[:] = np.cumsum(sizes, axis=2)[:, :, GRADES // LEVELS - 1 :: GRADES // LEVELS]
    ends = np.cumsum(sizes)
    counts[:] = ends.reshape(sizes.shape) - sizes
    return int(sizes.sum())


def invert(
    offsets: Array, terms: Array, values: Array, rows: Array, maxima: Array, place: Array, levels: Array,
    column_of: Array, postings: Array, columns: Array, gaps: Array,
) -> None:  # fmt: skip
    """As `kernels.invert`."""
    starts, written, begin = place.ravel(), place.ravel().copy(), 0
    postings[:], gaps[:] = BLOCK, 0  # a grade without documents
    for first, last in _pieces(offsets):
        document, row, byte, cell, gap = _cells(first, last, offsets, terms, values, rows, maxima, place.shape[1])
        order = np.argsort(cell, kind="stable")  # documents ascend in each cell
        counts = np.bincount(cell, minlength=len(starts))
        within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        postings[written[cell[order]] + within] = (document % BLOCK)[order]
        written += counts
        frequent = column_of[row] >= 0
        columns[column_of[row[frequent]], (document + document // BLOCK)[frequent]] = byte[frequent]
        sizes = np.cumsum(1 + gap // 255)
        gaps[begin + sizes - 1] = gap % 255 + 1
        begin += int(sizes[-1]) if len(sizes) else 0
    ends = np.append(starts[1:], len(postings))
    postings[ends[ends > starts] - 1] |= np.uint16(1 << 15)


def decode(documents: Array, gap_starts: Array, gaps: Array, listed: Array, terms: Array) -> None:
    """As `kernels.decode`."""
    terms[:] = listed[_rows_of(documents, gap_starts, gaps)]


def _rows_of(documents: Array, gap_starts: Array, gaps: Array) -> Array:
    """The rows of the terms of these documents, one after another."""
    flat, offsets = rows_of_spans(gap_starts, documents)
    steps = np.where(gaps[flat] == 0, 255, gaps[flat]).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(steps)])
    rows: Array = total[1:] - np.repeat(total[offsets[:-1]], np.diff(offsets)) - 1
    return rows[gaps[flat] > 0]


def first_fault(offsets: Array, gap_starts: Array, gaps: Array, count: int) -> int:
    """As `kernels.first_fault`."""
    begin, end = gap_starts[:-1], gap_starts[1:]
    wrong = (begin < 0) | (end < begin) | (end > len(gaps))
    if not wrong.any():
        total = np.concatenate([[0], np.cumsum(np.where(gaps == 0, 255, gaps).astype(np.int64))])
        sizes = np.concatenate([[0], np.cumsum(gaps > 0)])
        wrong = (total[end] - total[begin] - 1 >= count) | (sizes[end] - sizes[begin] != np.diff(offsets))
        filled = np.flatnonzero(end > begin)
        wrong[filled] |= gaps[end[filled] - 1] == 0
    return int(np.argmax(wrong)) if wrong.any() else -1


_ROUNDING = 1 + 1e-6
"""By which a bound is larger than a score that was rounded to float32."""
_SCORED = 256
"""Documents that are scored at once, at first."""


def answer(
    first: int, last: int, queries: Any, rows: Array, lists: Any, vectors: Any, places: Array, dead: Array, k: int,
    budget: int, candidates: int, room: Any, keys: Array, fill: Array,
) -> None:  # fmt: skip
    """As `kernels.answer`, but exact within every budget."""
    # All postings of the query's terms are read, each with the upper edge of its grade, and the documents scored by
    # falling sums, until no sum is left that reaches the k-th best score.
    starts, maxima, _, _, levels, postings, _, _ = lists
    offsets, terms, values = queries
    for q in range(first, last):
        row, weight, query = _known(terms, values, slice(offsets[q], offsets[q + 1]), rows, len(maxima))
        fill[q] = 0
        if len(row) == 0:
            continue
        lengths, block = levels[row, :, -1].astype(np.int64).ravel(), np.tile(np.arange(levels.shape[1]), len(row))
        ends = np.cumsum(lengths)
        posting = postings[np.repeat(starts[row].ravel() - (ends - lengths), lengths) + np.arange(ends[-1])]
        grade = np.cumsum(posting >> 15) - (posting >> 15)
        held = lengths > 0
        grade -= np.repeat(grade[(ends - lengths)[held]], lengths[held])
        bound = np.repeat(np.repeat(weight * maxima[row], levels.shape[1]), lengths) * EDGES[grade] * (_ROUNDING / 255)
        number = (posting & BLOCK).astype(np.int64)
        real = number < BLOCK
        sums = np.bincount((number + np.repeat(block * BLOCK, lengths))[real], bound[real], len(places))
        sums[places < 0] = 0.0
        by_sum = np.flatnonzero(sums)
        by_sum = by_sum[np.argsort(-sums[by_sum], kind="stable")]
        best, done, size = np.empty(0, np.uint64), 0, max(4 * k, _SCORED)
        while done < len(by_sum):
            if len(best) == k and sums[by_sum[done]] < dense.score_of(best[-1:])[0]:
                break
            scored = _keys(by_sum[done : done + size], query, vectors, places)
            best = np.sort(np.concatenate([best, scored]))[:k]
            done, size = done + size, 2 * size
        keys[q, : len(best)], fill[q] = best, len(best)


def score_again(
    first: int, last: int, queries: Any, rows: Array, vectors: Any, offsets: Array, documents: Array, places: Array,
    room: Any, keys: Array, fill: Array,
) -> None:  # fmt: skip
    """As `kernels.score_again`."""
    for q in range(first, last):
        own = slice(queries[0][q], queries[0][q + 1])
        query = _known(queries[1], queries[2], own, rows, int(rows.max(initial=-1)) + 1)[2]
        scored = _keys(documents[offsets[q] : offsets[q + 1]], query, vectors, places)
        keys[offsets[q] : offsets[q] + len(scored)], fill[q] = scored, len(scored)


def _known(terms: Array, values: Array, own: slice, rows: Array, listed: int) -> tuple[Array, Array, Array]:
    """The rows of a query's terms that occur, their weights, and these as a column of all rows."""
    row = rows[terms[own]]
    known = row >= 0
    row, weight, query = row[known], values[own][known].astype(np.float64), np.zeros(listed)
    query[row] = weight
    return row, weight, query


def _keys(documents: Array, query: Array, vectors: Any, places: Array) -> Array:
    """The keys of those documents that share a term with the query."""
    offsets, gap_starts, gaps, values = vectors
    flat, spans = rows_of_spans(offsets, documents)
    products = query[_rows_of(documents, gap_starts, gaps)] * values[flat].astype(np.float64)
    scores = np.bincount(owners(spans), products, len(documents))  # each sum in ascending order of terms
    shared = scores > 0
    return dense.key_of(dense.rounded(scores[shared]), places[documents[shared]])


# The exact scan of every pair.


def _matrix(part: Any, dimension: int) -> Any:
    from scipy.sparse import csr_array

    offsets, terms, values = part
    return csr_array((values.astype(np.float64), terms, offsets), shape=(len(offsets) - 1, dimension))


def score_pairs(left: Any, left_rows: Array, right: Any, right_rows: Array, out: Array) -> None:
    """As `scan_kernels.score_pairs`."""
    dimension = 1 + max(int(left[1].max(initial=0)), int(right[1].max(initial=0)))
    both = _matrix(left, dimension)[left_rows].multiply(_matrix(right, dimension)[right_rows]).tocsr()
    out[:] = dense.rounded(np.bincount(owners(both.indptr), both.data, len(out)))


def score_block(tile: Array, rows: Any, columns: Any, dimension: int) -> None:
    """Fill a block with the score of each row with each column; each sum is in ascending order of terms."""
    products = _matrix(rows, dimension) @ _matrix(columns, dimension).T.tocsr()
    tile[:] = dense.rounded(products.toarray())


def scan(
    tile: Array, query_of: Array, first: int, k: int, keys: Array, fill: Array, floor: Array, offsets: Array,
    documents: Array, known: Array, better: Array, ties: int,
) -> None:  # fmt: skip
    """Scan the rows of a scored block, as `scan_kernels.scan_rows` does; for the columns give the block the other way
    round."""
    never = np.zeros(len(fill), np.bool_)
    step = max(2**22 // tile.shape[1], 1)
    rows = np.flatnonzero(query_of >= 0)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        scores, query = np.ascontiguousarray(tile[some]), query_of[some]
        dense.take_top(scores, None, first, k, keys, fill, floor, never, query)
        dense.count_better(
            scores, np.float32(0), lambda row, column: scores[row, column], query, first, offsets, documents, known,  # noqa: B023
            better, ties,
        )  # fmt: skip


def finish(start: int, stop: int, k: int, keys: Array, indices: Array, scores: Array) -> None:
    """As `scan_kernels.finish`."""
    dense.finish(start, stop, k, keys[:, :k], np.full(len(keys), k), indices, scores)
