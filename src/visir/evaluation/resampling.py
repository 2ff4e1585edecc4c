"""The bootstrap over clusters for many columns at once: one resampling, any number of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError

Floats = NDArray[np.float64]

_ENTRIES = 4_000_000  # counts held at once: 32 MB


def resampled_sums(columns: Floats, clusters: object = None, *, samples: int = 2_000, seed: int = 0) -> Floats:
    """(samples, k): the sums of k columns (n, k) over clusters drawn with replacement, as many as there are.

    All columns see the same draws, so any statistic of their sums (a mean difference, a ratio, a ratio of a part) has
    its bootstrap distribution by plain arithmetic: `sums[:, 0] / sums[:, 1]`. `clusters`: (n,) the image of each query,
    which is drawn with all its captions; None draws queries. See `significance.py` for why clusters. NaN of a single
    cluster: drawn again it is the same, which says nothing of chance.
    """
    values = np.asarray(columns, np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise VisirError("a bootstrap needs at least one query.", hint="is the split, or the task, right?")
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


def interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resampled values; NaN where one of them is not a number (nothing to divide by)."""
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
