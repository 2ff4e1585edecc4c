"""Compiled kernels that lay out the postings of the inverted index.

A posting is one uint32: the document's number in the high 24 bits, its weight in the low 8, in 255ths of the term's
largest weight, *rounded up*. The postings of a term stand by falling weight, so whatever is worth looking at is a
prefix, read from memory in one go; `levels[t, l]` says how long the prefix of weights above 255 - 16 (l + 1) is, where
there are 16 levels.

Terms of very many documents are kept once more as a *column*: one byte for each document, added with vector units. The
documents are kept as rows of their own: the number of each term among those that occur, its weight in the same 255ths
(a *digest*), and its weight in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit


@njit()
def count(terms: Any, values: Any, frequency: Any, maxima: Any) -> None:
    """How many documents have each term, and the term's largest weight."""
    for j in range(terms.shape[0]):
        term = terms[j]
        frequency[term] += 1
        if values[j] > maxima[term]:
            maxima[term] = values[j]


@njit()
def invert(
    offsets: Any,
    terms: Any,
    values: Any,
    rows: Any,
    starts: Any,
    maxima: Any,
    postings: Any,
    levels: Any,
    numbers: Any,
    digests: Any,
) -> None:
    """Fill `postings` (m,) and `levels` (T, L) of the T terms that occur, and, where the documents' terms and values
    stand, `numbers` (m,) and `digests` (m,): the row and the rounded weight. `rows` (V,) says which row a term has.
    """
    place = starts[:-1].copy()
    unsorted = np.empty(postings.shape[0], np.uint32)
    for document in range(offsets.shape[0] - 1):
        for j in range(offsets[document], offsets[document + 1]):
            row = rows[terms[j]]
            weight = np.ceil(np.float64(values[j]) / np.float64(maxima[row]) * 255.0)
            byte = max(1, min(255, int(weight)))
            numbers[j], digests[j] = row, byte
            unsorted[place[row]] = np.uint32((document << 8) | byte)
            place[row] += 1
    sizes = np.empty(257, np.int64)
    step = 256 // levels.shape[1]
    for row in range(starts.shape[0] - 1):
        part, out = unsorted[starts[row] : starts[row + 1]], postings[starts[row] : starts[row + 1]]
        sizes[:] = 0
        for j in range(part.shape[0]):
            sizes[256 - np.int64(part[j] & np.uint32(255))] += 1
        for i in range(256):
            sizes[i + 1] += sizes[i]
        for level in range(levels.shape[1]):
            levels[row, level] = sizes[step * (level + 1)]
        for j in range(part.shape[0]):  # in order of documents, so equal weights stay in that order
            slot = 255 - np.int64(part[j] & np.uint32(255))
            out[sizes[slot]] = part[j]
            sizes[slot] += 1


@njit()
def fill_column(postings: Any, column: Any) -> None:
    """The weight of each document, as a byte."""
    for j in range(postings.shape[0]):
        column[postings[j] >> np.uint32(8)] = np.uint8(postings[j] & np.uint32(255))
