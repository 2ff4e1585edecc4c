"""Batches: every caption once per epoch, with its image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def batches_of_epoch(captions: int, size: int, *, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The rows of `captions` captions, shuffled and cut into ceil(captions / size) batches.

    The order depends on the seed and the epoch alone, so that an epoch can be run again after an interruption. The
    sizes differ by at most one: no short last batch, whose few negatives would make an easy step, and none left out.
    """
    order = np.random.default_rng([seed, epoch]).permutation(captions)
    return np.array_split(order, steps_per_epoch(captions, size))


def steps_per_epoch(captions: int, size: int) -> int:
    """How many batches an epoch has."""
    return -(-captions // size)


def views_of_epoch(captions: int, views: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Under which of its image's views each caption is seen in an epoch: (captions,), drawn evenly."""
    return np.random.default_rng([seed, epoch, 1]).integers(views, size=captions)
