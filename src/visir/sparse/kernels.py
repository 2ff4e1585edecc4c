"""Compiled loops over active terms: what is zero costs nothing.

A batch is kept by term ("columns"): the active entries of term k are `rows[starts[k]:starts[k + 1]]` with their
`weights`, those of images (row < images) before those of captions, each ascending. Every kernel works on a part of the
terms, captions or dimensions; parts share no output, and sums run in one order, so threads change no bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.jit import njit, plain


@njit("reassoc", "contract")
def own_logits(first: int, last: int, terms: Any, rows: Any, hidden: Any, words: Any, bias: Any, out: Any) -> None:
    """out[n] = words[terms[n]] · hidden[rows[n]] + bias[terms[n]] for entries n in [first, last)."""
    for n in range(first, last):
        word, other = words[terms[n]], hidden[rows[n]]
        total = word[0] * other[0]
        for i in range(1, len(word)):
            total += word[i] * other[i]
        out[n] = total + bias[terms[n]]


@njit("reassoc", "contract")
def count(
    first: int, last: int, logits: Any, images: int, usable: Any, may: Any, own_starts: Any, own: Any, out: Any
) -> None:
    """out[k] = active entries of term k in [first, last)."""
    # `logits` (V, R): of images, then of expanded captions; `may` (V,): the word coins; `own`: logits of the captions
    # that are not expanded, by term. What is not a number counts as active (hence `not … <= 0`), so that it is seen.
    for k in range(first, last):
        total = 0
        if usable[k]:
            row = logits[k]
            for r in range(images):
                total += not row[r] <= 0
            if may[k]:
                for r in range(images, len(row)):
                    total += not row[r] <= 0
                for n in range(own_starts[k], own_starts[k + 1]):
                    total += not own[n] <= 0
        out[k] = total


@njit("reassoc", "contract")
def fill(
    first: int,
    last: int,
    logits: Any,
    images: int,
    usable: Any,
    may: Any,
    captions: Any,
    own_starts: Any,
    own_rows: Any,
    own: Any,
    starts: Any,
    rows: Any,
    weights: Any,
) -> None:
    """Write the entries of the terms in [first, last): rows of the batch and weights log(1 + logit)."""
    # `captions` (R - images,): the row in the batch of each expanded caption.
    for k in range(first, last):
        if not usable[k]:
            continue
        at = starts[k]
        row = logits[k]
        for r in range(images):
            if not row[r] <= 0:
                rows[at], weights[at] = r, np.log1p(row[r])
                at += 1
        if may[k]:
            for r in range(images, len(row)):
                if not row[r] <= 0:
                    rows[at], weights[at] = captions[r - images], np.log1p(row[r])
                    at += 1
            for n in range(own_starts[k], own_starts[k + 1]):
                if not own[n] <= 0:
                    rows[at], weights[at] = own_rows[n], np.log1p(own[n])
                    at += 1


@njit("reassoc", "contract")
def products(first: int, last: int, images: int, starts: Any, rows: Any, weights: Any, out: Any) -> None:
    """out[c, i] += Σ_k s_C[c, k] · s_I[i, k] for the captions c in [first, last); out (captions, images)."""
    for k in range(len(starts) - 1):
        begin, end = starts[k], starts[k + 1]
        split = begin
        while split < end and rows[split] < images:
            split += 1
        for n in range(split, end):
            caption = rows[n] - images
            if first <= caption < last:
                line, weight = out[caption], weights[n]
                for m in range(begin, split):
                    line[rows[m]] += weight * weights[m]


@njit("reassoc", "contract")
def slopes(
    first: int,
    last: int,
    images: int,
    starts: Any,
    rows: Any,
    weights: Any,
    above: Any,
    image_slope: float,
    text_slope: float,
    out: Any,
) -> None:
    """The gradient of each entry's logit, for the terms in [first, last)."""
    # `above` (captions, images): the gradient of the scores; `image_slope`, `text_slope`: of a weight in the L1 norms.
    # A weight s = log(1 + a) has ds/da = 1 / (1 + a) = exp(-s).
    for k in range(first, last):
        begin, end = starts[k], starts[k + 1]
        split = begin
        while split < end and rows[split] < images:
            out[split] = image_slope
            split += 1
        for n in range(split, end):
            line, weight, total = above[rows[n] - images], weights[n], text_slope
            for m in range(begin, split):
                slope = line[rows[m]]
                total += slope * weights[m]
                out[m] += slope * weight
            out[n] = total
        for n in range(begin, end):
            out[n] *= np.exp(-weights[n])


@njit("reassoc", "contract")
def spread_slopes(
    first: int,
    last: int,
    starts: Any,
    rows: Any,
    slope: Any,
    hidden: Any,
    words: Any,
    hidden_slope: Any,
    words_slope: Any,
) -> None:
    """dW2[k] = Σ slope · hidden[row] and d hidden[row] += slope · W2[k], in the dimensions [first, last) of ω."""
    for k in range(len(starts) - 1):
        if starts[k] == starts[k + 1]:
            continue
        word, change = words[k, first:last], words_slope[k, first:last]
        for n in range(starts[k], starts[k + 1]):
            value = slope[n]
            vector, target = hidden[rows[n], first:last], hidden_slope[rows[n], first:last]
            for i in range(len(word)):
                change[i] += value * vector[i]
                target[i] += value * word[i]


# Weights as in use: a product of two float32 is exact in float64, and sums fold, in an order that NumPy keeps too. So a
# weight is a function of its vector: the same bits here, in NumPy below, and on every processor.


@njit()
def dot_exact(left: Any, right: Any, room: Any) -> Any:
    """Σ left · right in float64: eighths are added to one another, then halves of what that gives; the rest follows."""
    size = len(left) // 8
    for i in range(size):
        a = np.float64(left[i]) * right[i] + np.float64(left[i + 4 * size]) * right[i + 4 * size]
        b = np.float64(left[i + size]) * right[i + size] + np.float64(left[i + 5 * size]) * right[i + 5 * size]
        c = np.float64(left[i + 2 * size]) * right[i + 2 * size] + np.float64(left[i + 6 * size]) * right[i + 6 * size]
        d = np.float64(left[i + 3 * size]) * right[i + 3 * size] + np.float64(left[i + 7 * size]) * right[i + 7 * size]
        room[i] = (a + c) + (b + d)
    rest = 8 * size
    while size > 1 and size % 2 == 0:
        size //= 2
        for i in range(size):
            room[i] += room[i + size]
    total = 0.0
    for i in range(size):
        total += room[i]
    for i in range(rest, len(left)):
        total += np.float64(left[i]) * right[i]
    return total


@njit()
def hidden_exact(
    first: int, last: int, vectors: Any, matrix: Any, shift: Any, gain: Any, offset: Any, epsilon: float, out: Any
) -> None:
    """out[r] = norm(matrix · vectors[r] / |vectors[r]| + shift), in float64, rounded once."""
    # A function of the one vector: neither its place in a block nor the number of threads changes a bit.
    width = len(matrix)
    line, ones = np.empty(width, np.float64), np.ones(width, np.float64)
    room = np.empty(max(width, vectors.shape[1]), np.float64)
    for r in range(first, last):
        vector = vectors[r]
        length = max(np.sqrt(dot_exact(vector, vector, room)), 1e-12)  # torch's normalize: a zero vector stays one
        for j in range(width):
            line[j] = dot_exact(matrix[j], vector, room) / length + shift[j]
        line -= dot_exact(line, ones, room) / width
        scale = 1.0 / np.sqrt(dot_exact(line, line, room) / width + epsilon)
        for j in range(width):
            out[r, j] = np.float32(line[j] * scale * gain[j] + offset[j])


@njit()
def weigh(first: int, last: int, starts: Any, terms: Any, hidden: Any, words: Any, bias: Any, weights: Any) -> None:
    """log(1 + max(0, word · hidden + bias)) of the terms[starts[r]:starts[r + 1]] of row r, rounded once."""
    room = np.empty(words.shape[1], np.float64)
    for r in range(first, last):
        for n in range(starts[r], starts[r + 1]):
            total = dot_exact(words[terms[n]], hidden[r], room) + bias[terms[n]]
            weights[n] = np.float32(math.log1p(total)) if total > 0 else np.float32(0)


# The same in NumPy, into the same arrays.


def _dots(rows: Any, other: Any) -> NDArray[np.float64]:
    """`dot_exact` of each row of a matrix and a vector."""
    products = rows.astype(np.float64) * other
    whole = products.shape[1] // 8 * 8
    folded, rest = products[:, :whole], products[:, whole:]
    while folded.shape[1] > 1 and folded.shape[1] % 2 == 0:
        half = folded.shape[1] // 2
        folded = folded[:, :half] + folded[:, half:]
    total = np.zeros(len(products))
    for column in (*folded.T, *rest.T):
        total += column
    return total


def hidden_in_numpy(
    first: int, last: int, vectors: Any, matrix: Any, shift: Any, gain: Any, offset: Any, epsilon: float, out: Any
) -> None:
    """As `hidden_exact`."""
    width = len(matrix)
    for r in range(first, last):
        length = np.maximum(np.sqrt(_dots(vectors[r : r + 1], vectors[r])), 1e-12)
        line = _dots(matrix, vectors[r]) / length + shift
        line -= _dots(line[None], np.ones(width)) / width
        out[r] = line * (1.0 / np.sqrt(_dots(line[None], line) / width + epsilon)) * gain + offset


def weigh_in_numpy(
    first: int, last: int, starts: Any, terms: Any, hidden: Any, words: Any, bias: Any, weights: Any
) -> None:
    """As `weigh`."""
    for r in range(first, last):
        part = slice(starts[r], starts[r + 1])
        totals = _dots(words[terms[part]], hidden[r]) + bias[terms[part]]
        # The logarithm of the C library, as in the loop; NumPy has its own.
        weights[part] = [math.log1p(total) if total > 0 else 0.0 for total in totals.tolist()]


def rehearse() -> None:
    """Call all loops for nothing, with the types that they always have: that compiles them, or loads them."""
    numbers, flags = np.zeros((2, 2), np.float32), np.ones(2, np.bool_)
    line, places, starts = np.zeros(2, np.float32), np.zeros(2, np.int32), np.zeros(3, np.int64)
    given, vector = plain(numbers), plain(line)
    hidden_exact(0, 0, given, given, vector, vector, vector, 1.0, numbers)
    weigh(0, 0, plain(starts), plain(places), given, given, vector, line)
    own_logits(0, 0, places, places, numbers, numbers, line, line)
    count(0, 0, numbers, 2, flags, flags, starts, line, starts)
    fill(0, 0, numbers, 2, flags, flags, places, starts, places, line, starts, places, line)
    products(0, 0, 2, starts, places, line, numbers)
    slope: Any = np.float32(0)
    slopes(0, 0, 2, starts, places, line, numbers, slope, slope, line)
    spread_slopes(0, 0, starts, places, line, numbers, numbers, numbers, numbers)
