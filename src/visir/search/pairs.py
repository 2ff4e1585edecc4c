"""Scores of given pairs: the same number that a search would give them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import Embeddings
from visir.search import kernels
from visir.search.vectors import Side, Similarity, refuse_unlike

_PAIRS = 16_384


def score_pairs(
    left: Embeddings,
    left_rows: NDArray[np.int64],
    right: Embeddings,
    right_rows: NDArray[np.int64],
    similarity: Similarity = "cosine",
) -> NDArray[np.float32]:
    """(p,) float32 scores of the pairs of rows, summed in float64: what `search` scores these two vectors.

    Raises `EmbeddingError` for unequal dimensions and, under "cosine", for zero vectors.
    """
    refuse_unlike(left, right)
    sides = []
    for side, rows in ((left, left_rows), (right, right_rows)):
        distinct, place = np.unique(rows, return_inverse=True)
        sides.append((Side(side, distinct, similarity), place))
    scores = np.empty(len(left_rows), np.float32)
    for start in range(0, len(scores), _PAIRS):
        part = slice(start, start + _PAIRS)
        gathered = [side.gather(place[part]) for side, place in sides]
        kernels.score_pairs(*gathered[0], *gathered[1], scores[part])
    return scores
