"""Compiled kernels that lay out the postings of the inverted index.

**Postings.** Documents stand in blocks of 32,767. The postings of a term in a block are uint16 numbers: the document's
number in its block in the low 15 bits, by falling weight. Weights are not stored there. There are 32 grades of weight,
each .91 of the one before, in 255ths of the term's largest weight, *rounded up*; the highest bit marks the last posting
of a grade. A grade without documents has one posting of the number 32,767, which no document has. So whatever is worth
looking at is a prefix, read from memory in one go. Two grades are a level: `levels[t, b, l]` says how long the prefix
of the levels from 0 to l is.

**Columns.** Terms of very many documents are kept once more as a column: one byte for each document, its weight in
255ths of the term's largest weight, rounded up. Columns are added with vector units.

**Documents.** The terms of a document are gaps between the numbers that terms have among those that occur: one byte
from 1 to 255 each; a byte 0 says that the next gap is longer by 255. Weights are kept in full beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit

LEVELS, GRADES = 16, 32
BLOCK = (1 << 15) - 1
"""Documents in a block."""
EDGES = np.array([*np.round(255 * 0.91 ** np.arange(GRADES)), 0], np.int64)
"""The largest weight of each grade, in 255ths, and 0."""
_GRADE = np.array([np.flatnonzero(byte <= EDGES[:GRADES])[-1] for byte in range(256)], np.int64)


@njit()
def count(terms: Any, values: Any, frequency: Any, maxima: Any) -> None:
    """How many documents have each term, and the term's largest weight."""
    for j in range(terms.shape[0]):
        term = terms[j]
        frequency[term] += 1
        if values[j] > maxima[term]:
            maxima[term] = values[j]


@njit()
def _byte(value: Any, maximum: Any) -> int:
    return max(1, min(255, int(np.ceil(np.float64(value) / np.float64(maximum) * 255.0))))


@njit()
def count_grades(offsets: Any, terms: Any, values: Any, rows: Any, maxima: Any, counts: Any, gap_starts: Any) -> None:
    """Fill `counts` (T, B, G), the documents of each grade, and `gap_starts` (n + 1,), where their gaps will stand."""
    # `rows` (V,) says which of the T terms that occur a term is; `maxima` (T,) are their largest weights.
    for document in range(offsets.shape[0] - 1):
        block, before, size = document // BLOCK, -1, 0
        for j in range(offsets[document], offsets[document + 1]):
            row = int(rows[terms[j]])
            counts[row, block, _GRADE[_byte(values[j], maxima[row])]] += 1
            size += 1 + (row - before - 1) // 255
            before = row
        gap_starts[document + 1] = gap_starts[document] + size


@njit()
def lay_out(counts: Any, levels: Any) -> int:
    """Turn `counts` into the place of each grade's first posting, and fill `levels`; the number of postings."""
    place = 0
    for row in range(counts.shape[0]):
        for block in range(counts.shape[1]):
            last = GRADES - 1
            while last >= 0 and counts[row, block, last] == 0:
                last -= 1
            length = 0
            for grade in range(GRADES):
                size = max(counts[row, block, grade], 1) if grade <= last else 0
                counts[row, block, grade] = place + length
                length += size
                levels[row, block, grade // (GRADES // LEVELS)] = length
            place += length
    return place


@njit()
def invert(
    offsets: Any, terms: Any, values: Any, rows: Any, maxima: Any, place: Any, levels: Any, column_of: Any,
    postings: Any, columns: Any, gaps: Any,
) -> None:  # fmt: skip
    """Fill `postings`, `columns` and `gaps`; `place` is what `lay_out` made of the counts."""
    at, begin = 0, 0
    for document in range(offsets.shape[0] - 1):
        block, before = document // BLOCK, -1
        number = document - block * BLOCK
        for j in range(offsets[document], offsets[document + 1]):
            row = int(rows[terms[j]])
            byte = _byte(values[j], maxima[row])
            grade = _GRADE[byte]
            postings[place[row, block, grade]] = number
            place[row, block, grade] += 1
            if column_of[row] >= 0:
                columns[column_of[row], document + block] = byte
            for _ in range((row - before - 1) // 255):
                gaps[at] = 0
                at += 1
            gaps[at] = (row - before - 1) % 255 + 1
            at += 1
            before = row
    for row in range(levels.shape[0]):
        for block in range(levels.shape[1]):
            end = begin + int(levels[row, block, LEVELS - 1])
            for grade in range(GRADES):
                if begin == end:
                    break
                if place[row, block, grade] == begin:  # nothing was written: a grade without documents
                    postings[begin] = BLOCK
                    begin += 1
                begin = max(begin, int(place[row, block, grade]))
                postings[begin - 1] |= np.uint16(1 << 15)


@njit()
def decode(documents: Any, gap_starts: Any, gaps: Any, listed: Any, terms: Any) -> None:
    """Fill `terms` with the terms of these documents, one after another; `listed` (T,): the terms that occur."""
    at = 0
    for i in range(documents.shape[0]):
        row = -1
        for j in range(gap_starts[documents[i]], gap_starts[documents[i] + 1]):
            if gaps[j] == 0:
                row += 255
            else:
                row += int(gaps[j])
                terms[at] = listed[row]
                at += 1


@njit()
def first_fault(offsets: Any, gap_starts: Any, gaps: Any, count: int) -> int:
    """The first document whose gaps are not those of as many terms, of `count`, as it has weights; -1 if none."""
    for document in range(offsets.shape[0] - 1):
        row, size = -1, 0
        begin, end = gap_starts[document], gap_starts[document + 1]
        if begin < 0 or end < begin or end > gaps.shape[0]:
            return document
        for j in range(begin, end):
            row += 255 if gaps[j] == 0 else int(gaps[j])
            size += gaps[j] > 0
        if row >= count or size != offsets[document + 1] - offsets[document] or (end > begin and gaps[end - 1] == 0):
            return document
    return -1
