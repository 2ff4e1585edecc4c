"""The bootstrap over clusters for many columns at once: one resampling, any number of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.significance import NO_INTERVAL

Floats = NDArray[np.float64]

_ENTRIES = 4_000_000  # counts in memory at once: 32 MB


def resampled_sums(columns: Floats, clusters: object = None, *, samples: int = 2_000, seed: int = 0) -> Floats:
    """Bootstrap the sums of several columns over clusters drawn with replacement."""
    # All columns use the same draws. So any statistic of their sums (a mean difference, a ratio) has its bootstrap
    # distribution by plain arithmetic: `sums[:, 0] / sums[:, 1]`. `significance.py` explains why clusters are drawn.
    # columns: (n, k) one row per query.
    # clusters: (n,) the image of each query, which is drawn with all its captions; None draws queries.
    # Returns: (samples, k) the sums; NaN for a single cluster, because every draw of it is the same.
    values = np.asarray(columns, np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise VisirError(
            "a bootstrap needs at least one query.",
            hint="is the split, or the task, right?",
            code="bootstrap-needs-least-one",
        )
    if clusters is None:
        sums = values
    else:
        _, member = np.unique(np.asarray(clusters), return_inverse=True)
        sums = np.stack([np.bincount(member, column) for column in values.T], axis=1)
    count, rng = len(sums), np.random.default_rng(seed)
    if count < 2:
        return np.full((samples, values.shape[1]), np.nan)
    drawn = np.empty((samples, values.shape[1]))
    step = max(1, _ENTRIES // count)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picks = rng.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count)
        drawn[start : start + rows] = times.astype(np.float64) @ sums
    return drawn


def interval(values: Floats, units: int, level: float = 0.95) -> tuple[float, float]:
    """The expanded percentile interval of a resampled statistic."""
    # The plain percentile interval is too narrow with few units (it covers 80 % with four): resampling n units has the
    # variance (n − 1) / n and the tails of the normal distribution. The expanded one (Hesterberg 2015, section 5.3)
    # takes quantiles further out, such that a mean gets about Student's t interval.
    # values: (samples,) the resampled statistic. A draw without a value (a division by zero) is left out.
    # Returns: (low, high); (NaN, NaN) of a single unit, and where more draws than a tail holds have no value.
    from scipy.special import ndtr, stdtrit

    tail = (1 - level) / 2
    defined = values[np.isfinite(values)]
    if units < 2 or len(defined) < (1 - tail) * len(values):
        return NO_INTERVAL
    outer = float(ndtr(np.sqrt(units / (units - 1)) * stdtrit(units - 1, tail)))
    low, high = np.quantile(defined, [outer, 1 - outer])
    return float(low), float(high)
