"""A training under a constraint in a few numbers: where its curves end, and what λ does (LTD, Figure 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_END = 0.02
"""The share of the steps that counts as the end: one batch differs more from the next than a curve moves in that."""


def curve_end(values: NDArray[np.float64]) -> float:
    """The mean of the last fiftieth of a curve."""
    # values: (n,) the curve.
    return float(values[-max(1, int(_END * len(values))) :].mean())


def multiplier_course(values: NDArray[np.float64]) -> dict[str, float]:
    """What the multiplier λ does."""
    # values: (n,) λ over the steps, 0 and above.
    after = values[int(values.argmax()) :]
    zero = np.flatnonzero(after <= 0)
    course = {"last": curve_end(values), "largest": float(values.max()), "least after its peak": float(after.min())}
    if len(zero):
        course["largest after 0"] = float(after[zero[0] :].max())
    return {f"λ, {name}": value for name, value in course.items()}
