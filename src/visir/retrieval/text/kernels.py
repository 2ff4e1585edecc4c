"""Compiled kernels: scores of all documents for one query, and words near a misspelt word; and the same in NumPy.

These kernels call none of other files: the cache of compiled code on disk is renewed when the file of the caller
changes, not when that of what it calls does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from visir.jit import njit, plain


@njit()
def gains(documents: Any, counts: Any, norms: Any) -> Any:
    """What each posting adds to tf: the sum over fields of count · norm, (p,) float32."""
    gain = np.empty(documents.shape[0], np.float32)
    for p in range(documents.shape[0]):
        total = 0.0
        for f in range(norms.shape[1]):
            total += counts[p, f] * norms[documents[p], f]
        gain[p] = total
    return gain


@njit()
def score(
    concepts: Any, alternatives: Any, groups: Any, words: Any, weights: Any,
    starts: Any, documents: Any, gain: Any, n: int, k1: float,
) -> Any:  # fmt: skip
    """Score the documents of one query by BM25F.

    A query is a list of concepts (its words). Each has alternatives (itself, synonyms) with weights; an alternative has
    one group for each word of its phrase; a group has the words of one term. All are nested by offsets: concept c has
    the alternatives `concepts[c]:concepts[c + 1]`, and so on. The tf of a concept is the weighted sum over its
    alternatives; the tf of a phrase is the smallest of its groups. `gain` is that of `gains`.

    Returns (rows, scores): the documents with a word of the query, in ascending order.
    """
    total, tf = np.zeros(n), np.zeros(n)
    low, part = np.zeros(0), np.zeros(0)
    for c in range(concepts.shape[0] - 1):
        for a in range(concepts[c], concepts[c + 1]):
            first, last = alternatives[a], alternatives[a + 1]
            if last - first == 1:
                for w in range(groups[first], groups[last]):
                    for p in range(starts[words[w]], starts[words[w] + 1]):
                        tf[documents[p]] += weights[a] * gain[p]
                continue
            if low.shape[0] == 0:
                low, part = np.zeros(n), np.zeros(n)
            for g in range(first, last):
                for w in range(groups[g], groups[g + 1]):
                    for p in range(starts[words[w]], starts[words[w] + 1]):
                        part[documents[p]] += gain[p]
                for d in range(n):
                    low[d] = part[d] if g == first else min(low[d], part[d])
                    part[d] = 0.0
            for d in range(n):
                tf[d] += weights[a] * low[d]
        frequency = 0
        for d in range(n):
            frequency += tf[d] > 0.0
        idf = math.log(1.0 + (n - frequency + 0.5) / (frequency + 0.5))
        for d in range(n):
            total[d] += idf * tf[d] / (k1 + tf[d]) if tf[d] > 0.0 else 0.0
            tf[d] = 0.0
    rows = np.flatnonzero(total)
    return rows, total[rows]


@njit()
def near(word: Any, mark: Any, codes: Any, offsets: Any, marks: Any, most: int) -> Any:
    """Return (numbers, distances) of the words at an edit distance of at most `most`."""
    # The distance counts inserted, deleted and replaced letters, and neighbouring letters that are exchanged (optimal
    # string alignment, the restricted distance of Damerau and Levenshtein).
    # word: (m,) the letters, as numbers.
    # marks: (v,) the sets of all words.
    m = word.shape[0]
    longest = m + most + 1
    before, last, row = (
        np.empty(longest + 1, np.int32),
        np.empty(longest + 1, np.int32),
        np.empty(longest + 1, np.int32),
    )
    numbers, distances = [], []
    for v in range(offsets.shape[0] - 1):
        first = offsets[v]
        length = offsets[v + 1] - first
        if length > m + most or length < m - most:
            continue
        if _bits(mark & ~marks[v]) > most or _bits(marks[v] & ~mark) > most:
            continue
        for j in range(length + 1):
            last[j] = j
        best = 0
        for i in range(1, m + 1):
            row[0] = i
            best = i
            for j in range(1, length + 1):
                cost = 0 if word[i - 1] == codes[first + j - 1] else 1
                value = min(row[j - 1] + 1, last[j] + 1, last[j - 1] + cost)
                if i > 1 and j > 1 and word[i - 1] == codes[first + j - 2] and word[i - 2] == codes[first + j - 1]:
                    value = min(value, before[j - 2] + 1)
                row[j] = value
                best = min(best, value)
            if best > most:
                break
            before, last, row = last, row, before
        if best <= most and last[length] <= most:
            numbers.append(v)
            distances.append(last[length])
    return np.array(numbers, np.int64), np.array(distances, np.int64)


@njit()
def _bits(value: Any) -> Any:
    """The number of bits that are set."""
    count = 0
    while value:
        value &= value - np.uint64(1)
        count += 1
    return count


def rehearse() -> None:
    """Call every loop with few numbers, of the types that all searches have: that compiles it, or loads it."""
    row, two, letters = plain(np.zeros(1, np.int32)), plain(np.arange(2)), plain(np.ones(3, np.uint32))
    gain = gains(row, plain(np.ones((1, 1), np.uint16)), plain(np.ones((1, 1))))
    score(two, two, two, plain(np.zeros(1, np.int64)), plain(np.ones(1)), two, row, plain(gain), 1, 1.2)
    near(letters, np.uint64(2), letters, plain(np.array([0, 3])), plain(np.full(1, 2, np.uint64)), 1)


# The same in NumPy, to the bit, where there is little to do and nothing is compiled.


def gains_in_numpy(documents: Any, counts: Any, norms: Any) -> Any:
    """As `gains`."""
    total = np.zeros(len(documents))
    for field in range(norms.shape[1]):
        total += counts[:, field] * norms[documents, field]
    return total.astype(np.float32)


def score_in_numpy(
    concepts: Any, alternatives: Any, groups: Any, words: Any, weights: Any,
    starts: Any, documents: Any, gain: Any, n: int, k1: float,
) -> Any:  # fmt: skip
    """As `score`: a word has a document once, so its postings are added at once."""
    total = np.zeros(n)
    for c in range(len(concepts) - 1):
        tf = np.zeros(n)
        for a in range(concepts[c], concepts[c + 1]):
            low = None
            for g in range(alternatives[a], alternatives[a + 1]):
                alone = alternatives[a + 1] - alternatives[a] == 1
                part = tf if alone else np.zeros(n)
                for w in words[groups[g] : groups[g + 1]]:
                    own = slice(starts[w], starts[w + 1])
                    part[documents[own]] += gain[own].astype(np.float64) * (weights[a] if alone else 1.0)
                low = part if low is None else np.minimum(low, part)
            if low is not None and low is not tf:
                tf += weights[a] * low
        has = tf > 0
        frequency = int(has.sum())
        idf = math.log(1.0 + (n - frequency + 0.5) / (frequency + 0.5))
        total[has] += idf * tf[has] / (k1 + tf[has])
    rows = np.flatnonzero(total)
    return rows, total[rows]


def near_in_numpy(word: Any, mark: Any, codes: Any, offsets: Any, marks: Any, most: int) -> Any:
    """As `near`: words of one length at once."""
    lengths, m = np.diff(offsets), len(word)
    fit = np.flatnonzero(np.abs(lengths - m) <= most)
    other = np.stack([mark & ~marks[fit], marks[fit] & ~mark])
    fit = fit[(np.unpackbits(other.view(np.uint8).reshape(2, -1, 8), axis=2).sum(axis=2) <= most).all(axis=0)]
    distances = np.zeros(len(fit), np.int64)
    for length in np.unique(lengths[fit]):
        some = lengths[fit] == length
        letters = codes[offsets[fit[some]] + np.arange(length)[:, None]]
        last = before = np.repeat(np.arange(length + 1)[:, None], letters.shape[1], axis=1)
        for i in range(1, m + 1):
            row = np.full_like(last, i)
            for j in range(1, length + 1):
                value = np.minimum(np.minimum(row[j - 1], last[j]) + 1, last[j - 1] + (letters[j - 1] != word[i - 1]))
                if i > 1 and j > 1:
                    exchanged = (letters[j - 2] == word[i - 1]) & (letters[j - 1] == word[i - 2])
                    value = np.where(exchanged, np.minimum(value, before[j - 2] + 1), value)
                row[j] = value
            before, last = last, row
        distances[some] = last[length]
    close = distances <= most
    return fit[close], distances[close]
