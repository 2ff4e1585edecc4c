"""Random numbers by place: the number at any position of an epoch, without those before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.training.inputs.base import Draw

VIEWS, PICTURES, WORDS = 1, 2, 3
"""Streams of a `Draw`: which view of an image, how a picture is changed, which words are dropped."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniform(draw: Draw, stream: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) at `positions` ≥ 0 of one epoch's stream, in the shape of `positions`.

    NumPy's generators would draw the whole epoch for that (and keep it, under a lock, for every thread that works
    ahead), or be seeded anew for each row.
    """
    seed = np.random.SeedSequence([draw.seed, draw.epoch, stream]).generate_state(1, np.uint64)[0]
    numbers: NDArray[np.float64] = (splitmix64(seed, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def splitmix64(seed: np.uint64, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The numbers at `positions` of SplitMix64's sequence from `seed`.

    Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Its n-th state is seed + n·γ, so
    any place is reached at once, for a whole batch in one go.
    """
    state = (positions.astype(np.uint64) + np.uint64(1)) * _GAMMA + seed  # modulo 2^64: unsigned arrays wrap around
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
