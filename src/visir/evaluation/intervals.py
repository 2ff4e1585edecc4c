"""The 95 % interval of one measure: of a share, of any other mean, and of the difference of two systems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.significance import (
    FEW_UNITS,
    NO_INTERVAL,
    check_level,
    mean_and_error,
    mean_interval,
    unit_sums,
    without_rounding,
)
from visir.wilson import wilson

Floats = NDArray[np.float64]


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
    array = np.asarray(values, np.float64)
    return wilson(float(array.mean()), *_effective(array, clusters, level))


def difference_interval(
    values: object, baseline: object, clusters: object = None, *, level: float = 0.95
) -> tuple[float, float]:
    """The confidence interval of the mean of `values` − `baseline`, paired.

    - Hits (both sides 0 or 1): Agresti and Min (2005), half a query added to each of the four outcomes. Near a ceiling
      most differences are 0, and Student's t is then too narrow, or has no interval at all. With clusters the number of
      queries is the effective one, as in `share_interval`.
    - Six to nine units: the interval that belongs to the exact sign-flip test, from the means of all subsets of units
      (Hartigan 1969). It contains 0 exactly when p of `paired_t` is above 1 − `level`.
    - Otherwise `mean_interval`. With two to five units it rests on differences that are about normal.

    Args:
        values: (n,) one value per query of one system; finite.
        baseline: (n,) those of the other.
        clusters: (n,) the image of each query; None takes each query as its own unit.
        level: The confidence level, in (0, 1).

    Returns:
        (low, high); (NaN, NaN) of a single unit, and where there is no spread.

    Raises:
        VisirError: The level is not in (0, 1), or the differences are faulty as in `paired_t`.

    Example:
        >>> [round(end, 3) for end in difference_interval([1] * 50, [0] + [1] * 49)]  # one query of 50 was gained
        [-0.034, 0.072]
    """
    check_level(level)
    sides = np.asarray(values, np.float64), np.asarray(baseline, np.float64)
    differences = sides[0] - sides[1]
    sums, sizes = unit_sums(differences, clusters)
    if len(sums) > 1 and np.isin(sides, (0.0, 1.0)).all():
        return _of_paired_hits(differences, clusters, level)
    rank = int(2 ** len(sums) * (1 - level) / 2 + 1e-9) if len(sums) < FEW_UNITS else 0
    return _of_subsets(sums, sizes, rank) if rank else mean_interval(differences, clusters, level=level)


def _of_paired_hits(values: Floats, clusters: object, level: float) -> tuple[float, float]:
    """Agresti and Min: both discordant counts plus ½, the number of pairs plus 2; it holds the difference."""
    count, quantile = _effective(values, clusters, level)
    gained, lost = ((values == sign).mean() * count + 0.5 for sign in (1, -1))
    pairs = count + 2
    middle = (gained - lost) / pairs
    half = quantile * np.sqrt(gained + lost - (gained - lost) ** 2 / pairs) / pairs
    mean = float(values.mean())
    return min(mean, max(-1.0, float(middle - half))), max(mean, min(1.0, float(middle + half)))


def _of_subsets(sums: Floats, sizes: Floats, rank: int) -> tuple[float, float]:
    """The `rank`-th smallest and largest mean of all non-empty subsets of units; no interval without spread."""
    chosen = (np.arange(1, 2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1).astype(np.float64)
    means = np.sort(without_rounding(chosen @ sums, chosen @ np.abs(sums)) / (chosen @ sizes))
    low, high = float(means[rank - 1]), float(means[-rank])
    return (low, high) if high - low > 1e-12 * np.abs(means).max() else NO_INTERVAL


def _effective(values: Floats, clusters: object, level: float) -> tuple[float, float]:
    """How many independent queries the mean is worth, and the quantile of its interval (normal, or t over clusters)."""
    from scipy.special import ndtri, stdtrit

    count, quantile = float(len(values)), float(ndtri((1 + level) / 2))
    if clusters is None:
        return count, quantile
    sums, sizes = unit_sums(values, clusters)
    if sizes.max() == 1:
        return count, quantile
    worth, variance = count**2 / float((sizes**2).sum()), float(values.var())
    if len(sums) > 1 and variance > 0:
        _, error, freedom = mean_and_error(sums, sizes)
        worth = min(count, variance / error**2) if error > 0 else worth
        quantile = float(stdtrit(freedom, (1 + level) / 2))
    return worth, quantile
