"""Scores of single pairs, equal to the scores of a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.retrieval import kernels
from visir.retrieval.vectors import Side
from visir.threads import Share, piece, spread

_PAIRS = 65_536


def score_places(
    left: Side, left_places: NDArray[np.int64], right: Side, right_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # left_places: (p,) positions on the left side.
    # right_places: (p,) positions on the right side.
    scores = np.empty(len(left_places), np.float32)
    for start in range(0, len(scores), _PAIRS):
        stop = min(start + _PAIRS, len(scores))
        near, far = left.gather(left_places[start:stop]), right.gather(right_places[start:stop])
        out = scores[start:stop]

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            kernels.score_pairs(near[0], near[1][a:b], far[0], far[1][a:b], out[a:b])  # noqa: B023

        spread(share, len(out))
    return scores
