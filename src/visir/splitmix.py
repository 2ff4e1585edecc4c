"""Random numbers by place: the number at any position of a stream, without those before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def seed_of(*parts: int) -> np.uint64:
    """The seed of a stream named by whole numbers ≥ 0: well mixed, the same on every platform."""
    return np.uint64(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0])


def splitmix64(seed: np.uint64, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The numbers at `positions` of SplitMix64's sequence from `seed`."""
    # Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Its n-th state is seed + n·γ,
    # so any place is reached at once, for a whole batch in one go.
    state = (positions.astype(np.uint64) + np.uint64(1)) * _GAMMA + seed  # modulo 2^64: unsigned arrays wrap around
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
