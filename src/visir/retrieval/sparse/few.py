"""What the kernels of inverted lists do, in NumPy and into the same arrays: small indexes wait for no compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records.columns import rows_of_spans
from visir.retrieval.sparse.kernels import BLOCK, GRADE, GRADES, LEVELS

Array = NDArray[Any]


def count(terms: Array, values: Array, frequency: Array, maxima: Array) -> None:
    """As `kernels.count`."""
    frequency += np.bincount(terms, minlength=len(frequency))
    np.maximum.at(maxima, terms, values)


def _cells(offsets: Array, terms: Array, values: Array, rows: Array, maxima: Array) -> tuple[Array, ...]:
    """The document, row, byte, and cell (row, block, grade) of each posting, and the gap to the row before it."""
    document, row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), rows[terms].astype(np.int64)
    share = values.astype(np.float64) / maxima[row].astype(np.float64)
    byte = np.clip(np.ceil(share * 255.0).astype(np.int64), 1, 255)
    blocks = max(1, -(-(len(offsets) - 1) // BLOCK))
    before = np.concatenate([[-1], row[:-1]])
    before[offsets[:-1][np.diff(offsets) > 0]] = -1
    return document, row, byte, (row * blocks + document // BLOCK) * GRADES + GRADE[byte], row - before - 1


def count_grades(
    offsets: Array, terms: Array, values: Array, rows: Array, maxima: Array, counts: Array, gap_starts: Array
) -> None:
    """As `kernels.count_grades`."""
    document, _, _, cell, gap = _cells(offsets, terms, values, rows, maxima)
    counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
    sizes = np.bincount(document, 1 + gap // 255, len(offsets) - 1)
    np.cumsum(sizes.astype(np.int64), out=gap_starts[1:])


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
    document, row, byte, cell, gap = _cells(offsets, terms, values, rows, maxima)
    starts = place.ravel()
    postings[:] = BLOCK  # a grade without documents
    order = np.argsort(cell, kind="stable")  # documents ascend in each cell
    counts = np.bincount(cell, minlength=len(starts))
    within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    postings[starts[cell[order]] + within] = (document % BLOCK)[order]
    ends = np.append(starts[1:], len(postings))
    postings[ends[ends > starts] - 1] |= np.uint16(1 << 15)
    frequent = column_of[row] >= 0
    at = document + document // BLOCK
    columns[column_of[row[frequent]], at[frequent]] = byte[frequent]
    gaps[:] = 0
    gaps[np.cumsum(1 + gap // 255) - 1] = gap % 255 + 1


def decode(documents: Array, gap_starts: Array, gaps: Array, listed: Array, terms: Array) -> None:
    """As `kernels.decode`."""
    flat, offsets = rows_of_spans(gap_starts, documents)
    steps = np.where(gaps[flat] == 0, 255, gaps[flat]).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(steps)])
    row = total[1:] - np.repeat(total[offsets[:-1]], np.diff(offsets)) - 1
    terms[:] = listed[row[gaps[flat] > 0]]


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
