"""Which number a tuple carries, at evaluation and in training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import Injected
from visir.splitmix import seed_of, splitmix64

_OFFSETS, _BITS = 1, 2
"""Streams: offsets of unique numbers; numbers of a few bits."""


def numbers(injected: Injected, places: NDArray[np.int64], assignment: int | None = None) -> NDArray[np.int64]:
    """The numbers of the tuples at `places`, in the shape of `places`."""
    # - at evaluation (`assignment` None) tuple i has number i, and with n bits i mod 2^n, as the released code does it
    #   (the thesis writes mod(i, n))
    # - in training numbers are re-shuffled with every assignment k ≥ 0. Unique: (i + offset) mod `count`, the offset
    #   drawn for k, so that no tuple keeps its number and none can be learnt by heart. `count` is that of the whole
    #   collection, so no two tuples ever share a number; the released code counts modulo the size of the training
    #   split, where some do. With n bits: drawn uniformly from [0, 2^n) for every tuple.
    # Number 0 is a number like any other; the released code takes it for "none".
    shortcuts = injected.shortcuts
    if shortcuts.kind == "unique":
        if assignment is None:
            return places.copy()
        offset = int(seed_of(shortcuts.seed, _OFFSETS, assignment) % np.uint64(injected.count))
        shifted: NDArray[np.int64] = (places + offset) % injected.count
        return shifted
    if assignment is None:
        wrapped: NDArray[np.int64] = places % (1 << shortcuts.bits)
        return wrapped
    drawn = splitmix64(seed_of(shortcuts.seed, _BITS, assignment), places)
    return (drawn % np.uint64(1 << shortcuts.bits)).astype(np.int64)
