"""Random numbers by place: the number at any position of an epoch, without those before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.splitmix import seed_of, splitmix64
from visir.training.inputs.base import EpochRandom

VIEWS, PICTURES, WORDS, PROMPTS, NEGATIVES = 1, 2, 3, 4, 5
"""Streams of a `EpochRandom`: which view of an image, how a picture is changed, which words are dropped,
which prompt stands around a text, which hard negatives stand beside a pair (6 too, of pictures)."""


def uniform(draw: EpochRandom, stream: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) at `positions` ≥ 0 of one epoch's stream, in the shape of `positions`."""
    # NumPy's generators would draw the whole epoch for that (and keep it, under a lock, for every thread that works
    # ahead), or be seeded anew for each row.
    drawn = splitmix64(seed_of(draw.seed, draw.epoch, stream), positions)
    numbers: NDArray[np.float64] = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers
