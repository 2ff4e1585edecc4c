"""The bootstrap over clusters for many columns at once: one resampling, any number of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError

Floats = NDArray[np.float64]

_ENTRIES = 4_000_000  # counts in memory at once: 32 MB


def resampled_sums(columns: Floats, clusters: object = None, *, samples: int = 2_000, seed: int = 0) -> Floats:
    """Bootstrap the sums of several columns over clusters drawn with replacement.

    All columns use the same draws. So any statistic of their sums (a mean difference, a ratio) has its bootstrap
    distribution by plain arithmetic: `sums[:, 0] / sums[:, 1]`. `significance.py` explains why clusters are drawn.

    Args:
        columns: (n, k) one row per query.
        clusters: (n,) the image of each query, which is drawn with all its captions; None draws queries.
        samples: How many samples are drawn; each has as many clusters as there are.
        seed: The seed of the draws.

    Returns:
        (samples, k) the sums; NaN for a single cluster, because every draw of it is the same.

    Raises:
        VisirError: There is no query.

    Example:
        >>> import numpy as np
        >>> sums = resampled_sums(np.array([[1.0, 2.0], [3.0, 6.0]]), samples=5)
        >>> (sums[:, 1] / sums[:, 0]).tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0]
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
    """The percentile interval of resampled values.

    Args:
        values: (samples,) the resampled statistic.
        level: The confidence level, in (0, 1).

    Returns:
        (low, high); (NaN, NaN) where a value is not finite (a division by zero).
    """
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
