"""Compiled loops over active terms: what is zero costs nothing.

A batch is kept by term ("columns"): the active entries of term k are `rows[starts[k]:starts[k + 1]]` with their
`weights`, those of images (row < images) before those of captions, each ascending. Every kernel works on a part of the
terms, captions or dimensions; parts share no output, and sums run in one order, so threads change no bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit


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


@njit("reassoc", "contract")
def hidden_exact(
    first: int, last: int, vectors: Any, matrix: Any, shift: Any, gain: Any, offset: Any, epsilon: float, out: Any
) -> None:
    """out[r] = norm(matrix · vectors[r] / |vectors[r]| + shift): in float64, one order of sums, rounded once."""
    # A function of the one vector: neither its place in a block nor the number of threads changes a bit.
    width = len(matrix)
    line = np.empty(width, np.float64)
    for r in range(first, last):
        vector = vectors[r]
        length = 0.0
        for i in range(len(vector)):
            length += np.float64(vector[i]) * np.float64(vector[i])
        length = max(np.sqrt(length), 1e-12)  # torch's normalize: a zero vector stays one
        mean = 0.0
        for j in range(width):
            row, total = matrix[j], 0.0
            for i in range(len(vector)):
                total += np.float64(row[i]) * np.float64(vector[i])
            line[j] = total / length + shift[j]
            mean += line[j]
        mean /= width
        spread = 0.0
        for j in range(width):
            spread += (line[j] - mean) * (line[j] - mean)
        scale = 1.0 / np.sqrt(spread / width + epsilon)
        for j in range(width):
            out[r, j] = np.float32((line[j] - mean) * scale * gain[j] + offset[j])


@njit("reassoc", "contract")
def weight_exact(hidden: Any, word: Any, shift: Any) -> Any:
    """log(1 + max(0, word · hidden + shift)), the logit in float64 with one order of sums; float32."""
    total = 0.0
    for i in range(len(word)):
        total += np.float64(word[i]) * np.float64(hidden[i])
    total += shift
    return np.float32(np.log1p(total)) if total > 0 else np.float32(0)


@njit("reassoc", "contract")
def candidates(first: int, last: int, products: Any, usable: Any, slack: Any, out: Any) -> None:
    """out[r] = how many terms of row r may be active: `products` (n, V) lie within slack[r, …] of the exact logits."""
    for r in range(first, last):
        row, total, limit = products[r], 0, -slack[r]
        for k in range(len(row)):
            total += usable[k] and row[k] > limit
        out[r] = total


@njit("reassoc", "contract")
def weigh_rows(
    first: int,
    last: int,
    products: Any,
    usable: Any,
    slack: Any,
    hidden: Any,
    words: Any,
    bias: Any,
    starts: Any,
    terms: Any,
    weights: Any,
    counts: Any,
) -> None:
    """The exact weights of the terms that may be active, row by row from starts[r] on; counts[r] are above 0."""
    for r in range(first, last):
        row, at, limit = products[r], starts[r], -slack[r]
        for k in range(len(row)):
            if usable[k] and row[k] > limit:
                weight = weight_exact(hidden[r], words[k], bias[k])
                if weight > 0:
                    terms[at], weights[at] = k, weight
                    at += 1
        counts[r] = at - starts[r]


@njit("reassoc", "contract")
def weigh_own(first: int, last: int, starts: Any, own: Any, hidden: Any, words: Any, bias: Any, weights: Any) -> None:
    """The exact weights of given terms, own[starts[r]:starts[r + 1]] of row r; 0 where one is not active."""
    for r in range(first, last):
        for n in range(starts[r], starts[r + 1]):
            weights[n] = weight_exact(hidden[r], words[own[n]], bias[own[n]])
