"""Training the keys of Tip-Adapter-F over frozen vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

EPOCHS, BATCH, RATE = 20, 256, 1e-3
"""The paper's: 20 epochs of batches of 256, AdamW with a rate of 0.001 that falls by a cosine."""
_EPS, _DECAY, _MOMENTS = 1e-4, 0.01, (0.9, 0.999)

Matrix = NDArray[np.float32]
Codes = NDArray[np.int64]


def trained_keys(
    vectors: Matrix,
    codes: Codes,
    classes: int,
    class_vectors: NDArray[Any] | None,
    *,
    alpha: float,
    beta: float,
    scale: float,
    seed: int = 0,
    epochs: int = EPOCHS,
) -> Matrix:
    """Keys that start as the shots and are trained by cross-entropy to classify the shots."""
    # The values, the class vectors and the pictures' vectors stay as they are.
    # vectors: (n, d) unit vectors of the shots.
    # codes: (n,) their classes.
    # class_vectors: (classes, d) unit vectors, or None.
    # Returns: (n, d) the keys, not brought to length 1.
    keys = vectors.astype(np.float32, copy=True)
    text = None if class_vectors is None else (scale * (vectors @ class_vectors.T)).astype(np.float32)
    one_hot = np.zeros((len(codes), classes), np.float32)
    one_hot[np.arange(len(codes)), codes] = 1
    first, second = np.zeros_like(keys), np.zeros_like(keys)
    rng = np.random.default_rng(seed)
    steps = epochs * -(-len(keys) // BATCH)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(keys))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            gradient = key_gradient(
                keys, vectors[rows], codes[rows], one_hot, None if text is None else text[rows], alpha, beta
            )
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            keys *= np.float32(1 - rate * _DECAY)
            first += (1 - _MOMENTS[0]) * (gradient - first)
            second += (1 - _MOMENTS[1]) * (gradient * gradient - second)
            mean, square = first / (1 - _MOMENTS[0] ** step), second / (1 - _MOMENTS[1] ** step)
            keys -= np.float32(rate) * mean / (np.sqrt(square) + _EPS)
    return keys


def key_gradient(
    keys: Matrix, vectors: Matrix, codes: Codes, values: Matrix, text: Matrix | None, alpha: float, beta: float
) -> Matrix:
    """(n, d) the gradient of the mean cross-entropy of a batch with respect to the keys."""
    # keys: (n, d) the keys.
    # vectors: (b, d) the batch.
    # codes: (b,) its classes.
    # values: (n, classes) the classes of the keys, one-hot.
    # text: (b, classes) scaled cosines with the class vectors; None for none.
    affinity = np.exp(-beta * (1 - vectors @ keys.T))
    scores = alpha * (affinity @ values)
    if text is not None:
        scores += text
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(codes)), codes] -= 1
    chances /= len(codes)
    by_affinity = alpha * beta * (chances @ values.T) * affinity
    gradient: Matrix = (by_affinity.T @ vectors).astype(np.float32)
    return gradient
