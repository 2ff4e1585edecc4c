"""Matrices of scores under each reading of the similarity: a higher score is a better candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.axes import SIMILARITY

Matrix = NDArray[Any]
EXACT = (None, "cosine", "dot", "euclidean")
"""Similarities that are summed in float64 however many scores there are: equal vectors then have equal scores."""
_NEAREST = 10
_ROWS = 1024
"""How many queries are scored at once."""


def scores(images: Matrix, texts: Matrix, similarity: str, task: str) -> NDArray[np.float32]:
    """Score every query with every candidate."""
    # Products of float64 vectors are rounded to float32, so that equal vectors have equal scores.
    # images: (n, d) the vectors of images.
    # texts: (m, d) the vectors of texts.
    # Returns: (queries, candidates) the scores.
    queries, documents = (texts, images) if task == "t2i" else (images, texts)
    if similarity == "signs":  # whole numbers: the length of all vectors is one
        return _products(_signs(queries), _signs(documents))
    if similarity in _CHANGED:
        first, second = _CHANGED[similarity](images, texts)
        queries, documents = (second, first) if task == "t2i" else (first, second)
        return _products(_unit(queries), _unit(documents))
    if similarity.startswith("first "):
        share = SIMILARITY[similarity].value
        dimensions = int(queries.shape[1] * share) if isinstance(share, float) else share
        return _products(_unit(queries[:, :dimensions]), _unit(documents[:, :dimensions]))
    if similarity in ("images normalised", "texts normalised"):
        # Only the lengths of candidates change an order: those of queries scale a whole list.
        similarity = "cosine" if (similarity == "images normalised") == (task == "t2i") else "dot"
    if similarity == "dot":
        return _products(queries, documents)
    if similarity == "euclidean":
        return _products(2 * queries, documents, (documents**2).sum(axis=1))
    if similarity == "cosine":
        return _products(_unit(queries), _unit(documents))
    cosines = _unit(queries) @ _unit(documents).T
    if similarity == "csls":
        values = 2 * cosines - _near(cosines, 0)[None, :] - _near(cosines, 1)[:, None]
    else:  # dual softmax
        weights = np.exp(SIMILARITY[similarity].value * (cosines - cosines.max(axis=0)))
        values = cosines * weights / weights.sum(axis=0)
    return values.astype(np.float32, copy=False)


def _products(queries: Matrix, documents: Matrix, less: Matrix | float = 0.0) -> NDArray[np.float32]:
    """Products of all rows, less a number for each candidate, some rows at a time to save memory."""
    products = np.empty((len(queries), len(documents)), np.float32)
    for start in range(0, len(queries), _ROWS):
        products[start : start + _ROWS] = queries[start : start + _ROWS] @ documents.T - less
    return products


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = vectors / np.where(lengths == 0, 1, lengths)
    return unit


def _near(cosines: Matrix, axis: int) -> Matrix:
    """The mean of the highest cosines of each row or column."""
    count = min(_NEAREST, cosines.shape[axis])
    highest = -np.partition(-cosines, count - 1, axis=axis)
    mean: Matrix = (highest[:count] if axis == 0 else highest[:, :count]).mean(axis=axis)
    return mean


def _signs(vectors: Matrix) -> Matrix:
    signs: Matrix = np.where(vectors >= 0, np.float32(1), np.float32(-1))
    return signs


def _eight_bits(vectors: Matrix) -> Matrix:
    largest = np.abs(vectors).max()
    rounded: Matrix = np.round(vectors / (largest or 1) * 127)
    return rounded


def _standardised(vectors: Matrix) -> Matrix:
    spread = vectors.std(axis=0)
    standard: Matrix = (vectors - vectors.mean(axis=0)) / np.where(spread == 0, 1, spread)
    return standard


_CHANGED: dict[str, Callable[[Matrix, Matrix], tuple[Matrix, Matrix]]] = {
    "int8": lambda images, texts: (_eight_bits(images), _eight_bits(texts)),
    "centred": lambda images, texts: (images - images.mean(axis=0), texts - texts.mean(axis=0)),
    "standardised": lambda images, texts: (_standardised(images), _standardised(texts)),
}
"""Similarities that are the cosine of changed vectors."""
