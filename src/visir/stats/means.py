"""Estimates of one mean, share or median, with their intervals; what the units of a measurement are."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visir.errors import VisirError, nearest

Floats = NDArray[np.float64]
Interval = tuple[float, float]
Kind = Literal["auto", "share", "mean", "median", "folds"]

ROUNDING = 1e-12
"""Sums that are smaller than this share of their parts are 0; values that are as close have the same rank."""

NO_INTERVAL = (nan, nan)
"""The ends of an interval that does not exist."""

ANYTHING = (-inf, inf)
"""The bounds of a measure that has none."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    Attributes:
        value: The mean, share, median or other statistic.
        low: The lower end of the interval; NaN where there is none.
        high: The upper end.
        level: How often such intervals hold the truth: 0.95.
        units: How many independent units it rests on: images, visitors, seeds.
        method: How the interval was made, in words.
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    units: int = 0
    method: str = ""

    @property
    def ends(self) -> Interval:
        """(low, high), of any level."""
        return self.low, self.high


def estimate(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
    kind: Kind = "auto",
    bounds: Interval = ANYTHING,
    strata: ArrayLike | None = None,
    ratio: float = 0.0,
) -> Estimate:
    """Estimate a mean, a share or a median from one value per query, with its interval.

    Values that are all 0 or 1 have Wilson's interval of a share (1927), over as many queries as they are worth: with
    clusters, the number that has the same error as the clusters (Korn and Graubard 1998). It is good from one query on,
    and for shares near 0 and 1. Other values have Student's t over the clusters, whose error is the jackknife's: it
    assumes that their mean is about normal, and is too narrow where few very large values decide the mean (ranks). It
    needs two units that differ. A median has two of the values themselves (Woodruff 1952), from six values on, whatever
    their distribution.

    Args:
        values: (n,) one value per query. Finite; a median also takes infinite ones ("not found"). (seeds, images), two
            of each at least: both are samples, and the interval is that of minF′ (Clark 1973).
        clusters: (n,) the unit of each query: the image whose captions they are. None takes each query for its own.
        level: How often the interval is to hold the truth, between 0 and 1.
        kind: "share", "mean" or "median"; "auto" takes a share where all values are 0 or 1, and else a mean. "folds":
            the mean over folds, each of which has one value (Nadeau and Bengio 2003).
        bounds: Between which values the measure lies, such as (0, 1). An interval ends there: Student's t knows no
            range, and of two or three queries it would go beyond.
        strata: (n,) the class of each value of 0 or 1. The value is then the mean over classes of the share of each
            class: classes are fixed, the pictures of each are random. There are no clusters then.
        ratio: Of "folds": the size of the test part by that of the training part.

    Returns:
        The value and its interval; NaN ends where there is none (a single unit, no spread).

    Raises:
        VisirError: There is no value, one is not finite, or clusters are of another length.

    Source:
        Wilson, JASA 22, 1927; Korn and Graubard, Survey Methodology 24, 1998; Woodruff, JASA 47, 1952.

    Example:
        >>> from visir import stats
        >>> hits = [1, 1, 1, 0, 1, 1, 0, 1, 1, 1]
        >>> found = stats.estimate(hits)
        >>> found.value, round(found.low, 2), round(found.high, 2), found.method
        (0.8, 0.49, 0.94, 'Wilson')
        >>> stats.estimate([0.9, 1.0, 0.5], bounds=(0, 1)).high  # nDCG of three queries; t alone would end at 1.46
        1.0
    """
    check_level(level)
    if kind not in get_args(Kind):
        raise VisirError(f"unknown kind {kind!r}", hint=nearest(kind, get_args(Kind)), code="unknown-kind")
    array = numbers(values)
    if array.ndim == 2 or kind == "folds" or strata is not None:
        check_no_clusters(
            clusters, "strata" if strata is not None else "folds" if array.ndim == 1 else "seeds and images"
        )
    check_finite(np.where(np.isinf(array), 0.0, array) if kind == "median" else array)
    check_bounds(bounds, array)
    if strata is not None:
        return _over_strata(array, units_of(strata, len(array)), level)
    if array.ndim == 2:
        low, high = crossed_interval(array, level)
        value, units, method = float(array.mean()), array.shape[1], "minF′ over seeds and images"
    elif kind == "folds":
        low, high = folds_interval(array, ratio, level)
        value, units, method = float(array.mean()), len(array), "corrected resampled t over folds"
    elif kind == "median":
        low, high = median_interval(array, clusters, level=level)
        value, method = float(np.median(array)), "Woodruff"
        units = len(array) if clusters is None else int(units_of(clusters, len(array)).max()) + 1
    else:
        sums, sizes = unit_sums(array, clusters)
        units, value = len(sums), float(array.mean())
        if kind == "share" and (array.min() < 0 or array.max() > 1):
            raise VisirError("a share is of values between 0 and 1.", hint='kind="mean"', code="share-of-others")
        if kind == "share" or (kind == "auto" and np.isin(array, (0.0, 1.0)).all()):
            (low, high), method = wilson(value, *effective(array, sums, sizes, level)), "Wilson"
        else:
            (low, high), method = _of_units(sums, sizes, level), "Student's t"
    return Estimate(value, *within((low, high), bounds), level, units, method)


def of_counts(count: float, of: float, *, level: float = 0.95) -> Estimate:
    """Estimate a share from how often something was so, of how many independent cases.

    Wilson's interval (1927): it assumes that cases are independent, and is good from one case on. Where several cases
    are of one unit use `estimate` with clusters, or `of_moments`.

    Args:
        count: In how many cases.
        of: How many cases there are, 1 at least.
        level: How often the interval is to hold the truth, between 0 and 1.

    Returns:
        The share and its interval, in [0, 1].

    Raises:
        VisirError: There are no cases, or the count is not one of them.

    Example:
        >>> from visir import stats
        >>> [round(end, 2) for end in stats.of_counts(18, 20).ends]
        [0.7, 0.97]
    """
    check_level(level)
    if not (0 <= count <= of and 0 < of < inf):
        raise VisirError(f"{count} of {of} cases is no share.", hint="0 <= count <= of, of one at least")
    return Estimate(count / of, *wilson(count / of, of, normal_quantile(level)), level, int(of), "Wilson")


# What is handed in: numbers, and the units of a measurement (queries, or images with all their captions).

LARGEST = 1e150
"""The squares of larger values, added up, are beyond what a float holds."""


def numbers(values: object) -> Floats:
    """Values as floats, what is masked as NaN; what are no numbers is refused."""
    try:
        if getattr(getattr(values, "dtype", None), "kind", "f") in "cmM":
            raise TypeError("dates, times and complex numbers are none")
        if isinstance(values, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(np.ma.asarray(values, np.float64), nan), np.float64)
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as fault:
        raise VisirError(
            f"values are numbers: {fault}", hint="a list or an array of them", code="no-numbers"
        ) from fault


def check_finite(values: Floats) -> None:
    """Refuse values that are not there, no numbers, or too large to be added up."""
    if not values.ndim or not values.size:
        raise VisirError("there are no values.", hint="a list or an array of numbers", code="no-values")
    bad = np.flatnonzero(~(np.abs(values) < LARGEST))
    if len(bad):
        raise VisirError(
            f"{len(bad)} of {values.size} differences are not finite numbers (the first at position {int(bad[0])}).",
            hint="leave the measure out, or the queries for which it is not defined",
            code="differences-not-finite-numbers",
        )


def check_bounds(bounds: Interval, values: ArrayLike = ()) -> None:
    """Refuse bounds that are no two ends of a range, and values outside of them."""
    low, high = bounds
    if not low < high:
        raise VisirError(f"bounds are a lower and an upper end, not {low} and {high}.", code="no-bounds")
    room = 1e-9 * max([1.0, *(abs(end) for end in bounds if abs(end) < inf)])
    every = np.atleast_1d(np.asarray(values, np.float64))
    outside = every[(every < low - room) | (every > high + room)]
    if outside.size:
        raise VisirError(
            f"{outside[0]:g} lies outside of the bounds {low:g} and {high:g}.",
            hint="bounds= says between which values the measure lies",
            code="outside-of-bounds",
        )


def check_no_clusters(clusters: object, other: str) -> None:
    """Refuse clusters where they would be passed over."""
    if clusters is not None:
        raise VisirError(f"{other} say what the units are; there are no clusters then.", code="clusters-passed-over")


def units_of(clusters: object, count: int) -> NDArray[np.intp]:
    """Which unit each of so many values is of, numbered from 0; a value without one is refused."""
    names = np.asarray(clusters, object if isinstance(clusters, (list, tuple)) else None)
    if names.ndim != 1:
        raise VisirError("clusters are one name or number for each value.", code="clusters-of-another-form")
    if len(names) != count:
        raise VisirError(f"{len(names)} clusters for {count} differences.", code="clusters-differences")
    given = names.tolist() if names.dtype == object else []
    is_missing = any(str(name) in _MISSING for name in given if not isinstance(name, str))
    if is_missing or (names.dtype.kind in "fmM" and (names != names).any()) or np.ma.is_masked(clusters):
        raise VisirError("clusters are missing of some values.", hint="leave these values out", code="clusters-missing")
    try:
        plain = np.asarray(given) if given and all(isinstance(name, (int, float)) for name in given) else names
        return np.unique(plain, return_inverse=True)[1]
    except TypeError:  # of several types, which have no order
        numbered: dict[str, int] = {}
        return np.array([numbered.setdefault(repr(name), len(numbered)) for name in given], np.intp)


_MISSING = {"None", "nan", "<NA>", "NaT"}


def unit_sums(differences: object, clusters: object) -> tuple[Floats, Floats]:
    """Add up the values of each unit."""
    # Returns: (c,) the sum and (c,) the number of queries of each unit.
    values = numbers(differences)
    if values.ndim != 1 or len(values) == 0:
        raise VisirError(
            "a paired test needs at least one query.",
            hint="is the split, or the task, right?",
            code="paired-test-needs-least",
        )
    check_finite(values)
    if clusters is None:
        return values, np.ones(len(values))
    member = units_of(clusters, len(values))
    sums, sizes = (np.bincount(member, column).astype(np.float64) for column in (values, np.abs(values)))
    return without_rounding(sums, sizes), np.bincount(member).astype(np.float64)


def without_rounding(sums: Floats, sizes: Floats) -> Floats:
    """Sums with 0 in the place of those that are nothing but rounding: 1/2 + 1/3 − 1/2 − 1/3 is not 0 in floats."""
    # sums: (n,) sums.
    # sizes: (n,) the sums of the absolute values.
    return np.where(np.abs(sums) <= ROUNDING * sizes, 0.0, sums)


def mean_and_error(sums: Floats, sizes: Floats) -> tuple[float, float, float]:
    """Return the mean over all queries, its standard error, and the degrees of freedom."""
    # The error is the jackknife's: the mean is computed without each cluster in turn. The usual sandwich estimator
    # underestimates the error when one large cluster dominates the mean (up to 18 % false positives with 4 to 20
    # clusters of 1 to 20 queries). The degrees of freedom are those of the effective number of equal clusters: (Σn)² /
    # Σn² − 1.
    # sums: (c,) the sum of the values of each cluster; not all clusters have the same mean.
    # sizes: (c,) the number of its queries.
    count, total = len(sums), float(sizes.sum())
    mean = float(sums.sum()) / total
    without = (sums.sum() - sums) / (total - sizes)
    gaps = without - mean
    widest = float(np.abs(gaps).max()) or 1.0  # the squares of tiny gaps are 0
    error = widest * float(np.sqrt((count - 1) / count * ((gaps / widest) ** 2).sum()))
    return mean, error, total**2 / float((sizes**2).sum()) - 1


def no_spread(sums: Floats, sizes: Floats) -> bool:
    """Whether all clusters have the same mean, up to rounding."""
    residuals = sums - sizes * (sums.sum() / sizes.sum())
    return bool((np.abs(residuals) <= max(1e-12 * np.abs(sums).max(), 1e-300)).all())


def effective(values: Floats, sums: Floats, sizes: Floats, level: float) -> tuple[float, float]:
    """How many independent queries the mean is worth, and the quantile of its interval (normal, or t over clusters)."""
    # sums, sizes: of the units, from `unit_sums`.
    from scipy.special import stdtrit

    count, quantile = float(len(values)), normal_quantile(level)
    if sizes.max() == 1:
        return count, quantile
    worth, variance = count**2 / float((sizes**2).sum()), float(values.var())
    if len(sums) > 1 and variance > 0:
        _, error, freedom = mean_and_error(sums, sizes)
        worth = min(count, variance / error**2) if error > 0 else worth
        quantile = float(stdtrit(freedom, (1 + level) / 2))
    return worth, quantile


# The intervals.


def check_level(level: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise VisirError(f"the level of an interval lies between 0 and 1, not {level}.", hint="0.95 is usual")


def normal_quantile(level: float) -> float:
    """1.96 for 0.95."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def within(ends: Interval, bounds: Interval) -> Interval:
    """An interval that ends where its measure does; NaN stays."""
    return float(max(ends[0], bounds[0])), float(min(ends[1], bounds[1]))


def wilson(p: float, n: float, z: float) -> Interval:
    """Wilson's interval of a share (1927); it stays in [0, 1] and is never a point."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))


def mean_interval(differences: object, clusters: object = None, *, level: float = 0.95) -> Interval:
    """The interval of a mean by Student's t; (NaN, NaN) where there is no spread."""
    # From ten units on it contains 0 exactly when p of `paired_t` is above 1 − `level`.
    check_level(level)
    return _of_units(*unit_sums(differences, clusters), level)


def _of_units(sums: Floats, sizes: Floats, level: float) -> Interval:
    if len(sums) < 2 or no_spread(sums, sizes):
        return NO_INTERVAL
    from scipy.special import stdtrit

    mean, error, freedom = mean_and_error(sums, sizes)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return mean - half, mean + half


def median_interval(values: object, clusters: object = None, *, level: float = 0.95) -> Interval:
    """The interval of a median: two of the values themselves (Woodruff 1952)."""
    # A value is below the median or not, so Wilson's interval of a share of one half says which of the sorted values
    # are the ends. With clusters, queries count as many as they are worth, as those of a share.
    # values: (n,) one value per query; infinite ones are allowed ("not found").
    # Returns: (low, high); (NaN, NaN) of fewer than six values, which need not hold the median between them.
    check_level(level)
    array = np.sort(np.asarray(values, np.float64))
    if not len(array) or np.isnan(array).any():
        return NO_INTERVAL
    # Values that equal the median are half below it; without a spread the clusters count.
    below = (np.asarray(values, np.float64) <= np.median(array)).astype(np.float64)
    low, _ = wilson(0.5, *effective(below, *unit_sums(below, clusters), level))
    first = int(np.floor(len(array) * low + 1e-9))  # `first` values lie below the lower end, or at it
    return (float(array[first - 1]), float(array[-first])) if first else NO_INTERVAL


def _over_strata(hits: Floats, strata: NDArray[Any], level: float) -> Estimate:
    """The mean over classes of the share of each, by Wilson over as many pictures as that mean is worth."""
    # Its variance is that of the shares of the classes, each with half a right and half a wrong picture added
    # (Jeffreys), so that a class of two pictures is not certain because both are right. Few small classes can decide
    # it; then it is as much wider as Student's t is than the normal, with Satterthwaite's degrees of freedom.
    from scipy.special import stdtrit

    if not np.isin(hits, (0.0, 1.0)).all():
        raise VisirError("strata go with values of 0 or 1.", code="strata-of-others")
    _, member = np.unique(strata, return_inverse=True)
    pictures = np.bincount(member)
    shares = np.bincount(member, hits) / pictures
    mean = float(shares.mean())
    likely = (shares * pictures + 0.5) / (pictures + 1)
    parts = likely * (1 - likely) / pictures / len(pictures) ** 2
    variance, middle = float(parts.sum()), float(likely.mean())
    worth = min(middle * (1 - middle) / variance, float(pictures.sum()))
    freedom = variance**2 / float((parts**2 / pictures).sum())
    ends = wilson(mean, worth, float(-stdtrit(freedom, round((1 - level) / 2, 12))))
    return Estimate(mean, *ends, level, len(hits), "Wilson over the pictures that the mean over classes is worth")


# Over folds, whose training parts overlap.


def folds_error(values: Floats, ratio: float) -> float:
    """The corrected standard error of a mean over folds (Nadeau and Bengio 2003)."""
    if not 0 <= ratio < inf:
        raise VisirError(f"the ratio of test to training size is 0 or more, not {ratio}.", code="no-ratio")
    return float(np.sqrt(values.var(ddof=1) * (1 / len(values) + ratio)))


def folds_interval(values: Floats, ratio: float, level: float = 0.95) -> Interval:
    """The interval of a mean over folds; (NaN, NaN) of a single one, and where all give the same."""
    from scipy.stats import t as student

    check_finite(values)
    if len(values) < 2 or (spread := folds_error(values, ratio)) <= 1e-12:
        return NO_INTERVAL
    half, mean = float(student.ppf((1 + level) / 2, len(values) - 1)) * spread, float(values.mean())
    return mean - half, mean + half


# Over queries *and* trainings: for new photos and new seeds.


def crossed_error(differences: Floats) -> tuple[float, float]:
    """The standard error of a mean over seeds and images, and its degrees of freedom (minF′, Clark 1973)."""
    # A test over queries alone treats the few available trainings as the recipe itself, and finds differences between
    # two seeds of one recipe. A test over three seeds alone ignores thousands of queries. This uses both: it adds the
    # squared standard errors of the mean over images (each averaged over seeds) and over seeds (each averaged over
    # images), and takes the degrees of freedom from Satterthwaite's formula. Seed i of one recipe is paired with seed i
    # of the other, which has the same batches.
    # In simulated studies without a true difference (three seeds, 1,000 images with a standard deviation of the
    # differences of 2.6 points, and of 0.15 between seeds), p < 0.05 in 6 %; with a test by images alone in 17 %. With
    # two seeds it is 8 % (22 % by images alone), with five at most 5 % (`benchmarks/calibration.py`).
    # differences: (seeds, images), two of each at least.
    if min(differences.shape) < 2:
        raise VisirError(
            f"{differences.shape[0]} seeds and {differences.shape[1]} images: both are samples, of two at least.",
            hint="train more seeds",
            code="both-samples-two-least",
        )
    parts = [differences.mean(axis).var(ddof=1) / differences.shape[1 - axis] for axis in (0, 1)]
    freedom = [differences.shape[1 - axis] - 1 for axis in (0, 1)]
    total = sum(parts)
    degrees = total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True)) if total else 1.0
    return float(np.sqrt(total)), float(degrees)


def crossed_interval(differences: Floats, level: float = 0.95) -> Interval:
    """The interval of a mean over (seeds, images); (NaN, NaN) where there is no spread."""
    error, degrees = crossed_error(differences)
    if error == 0:
        return NO_INTERVAL
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    return float(differences.mean()) - half, float(differences.mean()) + half
