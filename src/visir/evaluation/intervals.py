"""The 95 % interval of one measure of one system: of a share, or of any other mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.significance import mean_and_error, mean_interval
from visir.wilson import wilson


def interval_of(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a mean: `share_interval` of values that are all 0 or 1, else `mean_interval`.

    Args:
        values: (n,) one value per query; finite.
        clusters: (n,) the image or item of each query; None takes each query as its own unit.
        level: The confidence level, in (0, 1).

    Returns:
        (low, high); (NaN, NaN) where there is none.
    """
    array = np.asarray(values, np.float64)
    if len(array) and np.isin(array, (0.0, 1.0)).all():
        return share_interval(array, clusters, level=level)
    return mean_interval(array, clusters, level=level)


def share_interval(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share (1927), which is good for few queries and for shares near 0 and 1.

    With clusters, the number of queries is replaced by the effective one, which has the same error as the clusters
    (Korn & Graubard 1998). Where all values are equal there is no such error; then every cluster counts as one query.

    Args:
        values: (n,) zeros and ones.
        clusters: (n,) the image or item of each query; None takes each query as its own unit.
        level: The confidence level, in (0, 1).

    Returns:
        (low, high), in [0, 1].

    Example:
        >>> low, high = share_interval([1, 1, 1, 1])
        >>> round(low, 3), high
        (0.51, 1.0)
    """
    from scipy.stats import norm
    from scipy.stats import t as student

    array: NDArray[np.float64] = np.asarray(values, np.float64)
    count, share = float(len(array)), float(array.mean())
    z = float(norm.ppf((1 + level) / 2))
    if clusters is not None:
        _, member = np.unique(np.asarray(clusters), return_inverse=True)
        sizes = np.bincount(member).astype(np.float64)
        count = count**2 / float((sizes**2).sum())
        if len(sizes) > 1 and 0 < share < 1:
            _, error, freedom = mean_and_error(np.bincount(member, array).astype(np.float64), sizes)
            if error > 0:
                count = min(float(len(array)), share * (1 - share) / error**2)
            z = float(student.ppf((1 + level) / 2, freedom))
    return wilson(share, count, z)
