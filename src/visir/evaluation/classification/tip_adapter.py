"""Tip-Adapter: the shots as a cache of keys and values beside the zero-shot classifier (Zhang et al. 2022, ECCV)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.classification.tip_training import trained_keys
from visir.evaluation.classification.tuning import Codes, Matrix, Shots

ALPHA, BETA = 1.0, 5.5
"""The settings of the paper, where they are not chosen."""
ALPHAS = (0.1, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 10.0)
BETAS = (1.0, 2.0, 3.5, 5.5, 8.0, 12.0, 20.0, 40.0)
SCALE = 100.0
"""By which cosines are multiplied, as CLIP and the code of the paper have it."""
_ENTRIES = 1 << 24


def tip_scores(
    shots: Shots, pictures: Matrix, class_vectors: NDArray[Any] | None, *, trained: bool = False, seed: int = 0
) -> tuple[NDArray[np.float32], str]:
    """Score pictures with a cache of shots."""
    #     scores = α · exp(-β (1 - f Kᵀ)) V + 100 · f Wᵀ
    # f are pictures, K the shots (keys), V their classes (one-hot), W the class vectors, all of length 1. α and β are
    # those of a grid with the highest accuracy on the validation pictures or on held-out shots; the highest likelihood
    # decides among equals. Tip-Adapter-F trains K first, with α and β of the paper.
    # The paper's keys are means over ten random crops of each shot, and Tip-Adapter-F trains on crops; here the vectors
    # are frozen, one for each shot.
    # pictures: (n, d) unit vectors.
    # class_vectors: (classes, d) unit vectors; None for a model without texts: then the cache decides alone.
    # Returns: (n, classes) scores, and the settings as text.
    alpha, beta = _settings(shots, class_vectors, trained, seed)
    keys = _keys(shots.vectors, shots.codes, shots.classes, class_vectors, trained, seed)
    scores = cache_scores(pictures, keys, shots.codes, shots.classes, class_vectors, alpha, beta)
    return scores, f"β = {beta:g}" if class_vectors is None else f"α = {alpha:g}, β = {beta:g}"


def cache_scores(
    pictures: Matrix,
    keys: Matrix,
    codes: Codes,
    classes: int,
    class_vectors: NDArray[Any] | None,
    alpha: float,
    beta: float,
) -> NDArray[np.float32]:
    """(n, classes) the formula above, for given keys and settings."""
    scores = np.empty((len(pictures), classes), np.float32)
    by_class, starts, present = _sorted_by_class(codes)
    step = max(1, _ENTRIES // max(1, len(keys)))
    for start in range(0, len(pictures), step):
        part = pictures[start : start + step]
        affinity = np.exp(-beta * (1 - part @ keys[by_class].T))
        scores[start : start + step] = 0 if class_vectors is None else SCALE * (part @ class_vectors.T)
        scores[start : start + step, present] += alpha * np.add.reduceat(affinity, starts, axis=1)
    return scores


def _sorted_by_class(codes: Codes) -> tuple[Codes, Codes, Codes]:
    """The order that puts keys of one class together, where each class begins, and which classes there are."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    return order, starts, present


def _keys(
    vectors: Matrix, codes: Codes, classes: int, class_vectors: NDArray[Any] | None, trained: bool, seed: int
) -> Matrix:
    if not trained:
        return vectors
    return trained_keys(vectors, codes, classes, class_vectors, alpha=ALPHA, beta=BETA, scale=SCALE, seed=seed)


def _settings(shots: Shots, class_vectors: NDArray[Any] | None, trained: bool, seed: int) -> tuple[float, float]:
    """α and β: the first of the grid, by distance from the paper's, with the highest accuracy, then likelihood."""
    alphas = (ALPHA,) if class_vectors is None else ALPHAS
    grid = sorted(product(alphas, BETAS), key=lambda pair: abs(np.log(pair[0] / ALPHA)) + abs(np.log(pair[1] / BETA)))
    results = np.zeros((len(grid), 2))
    for fitted, codes, judged, judged_codes in shots.parts():
        keys = _keys(fitted, codes, shots.classes, class_vectors, trained, seed)
        results += _tried(grid, keys, codes, judged, judged_codes, shots.classes, class_vectors)
    # Rounded, so that sums in another order do not decide among equals.
    best = max(range(len(grid)), key=lambda place: (results[place, 0], round(results[place, 1], 9), -place))
    return grid[best]


def _tried(
    grid: Sequence[tuple[float, float]],
    keys: Matrix,
    codes: Codes,
    judged: Matrix,
    judged_codes: Codes,
    classes: int,
    class_vectors: NDArray[Any] | None,
) -> NDArray[np.float64]:
    """(settings, 2) how many are predicted rightly, and the summed log-likelihood."""
    rows = np.arange(len(judged))
    cached = {beta: cache_scores(judged, keys, codes, classes, None, 1.0, beta) for beta in {beta for _, beta in grid}}
    text = 0 if class_vectors is None else SCALE * (judged @ class_vectors.T)
    results = []
    for alpha, beta in grid:
        scores = (alpha * cached[beta] + text).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        likelihood = scores[rows, judged_codes] - np.log(np.exp(scores).sum(axis=1))
        results.append((float((scores.argmax(axis=1) == judged_codes).sum()), float(likelihood.sum())))
    return np.array(results)
