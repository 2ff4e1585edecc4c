"""The learning rate over time."""

from __future__ import annotations

import math


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    """The share of the peak learning rate at `step` (from 0) of `steps`.

    Linear from 1/w to 1 over the first w = ⌈warmup · steps⌉ steps, then half a cosine that would reach 0 one step after
    the last (Loshchilov & Hutter 2017, eq. 5, without restarts).
    """
    rising = math.ceil(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1.0 + math.cos(math.pi * (step - rising) / (steps - rising)))
