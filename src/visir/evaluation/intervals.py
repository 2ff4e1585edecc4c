"""The 95 % interval of one measure: of a share, a mean, a median, and of differences, some with their own test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.measures import MEASURES, base_of
from visir.evaluation.significance import (
    FEW_UNITS,
    FEWEST_UNITS,
    NO_INTERVAL,
    check_level,
    mean_and_error,
    mean_interval,
    paired_t,
    unit_sums,
    without_rounding,
)
from visir.splitmix import wilson

Floats = NDArray[np.float64]

_SHUFFLES = 1_999
"""How often units are given to the two groups at random; (shuffles + 1) · 5 % is a whole number."""
_TAIL = 0.01
"""Below this p the shuffles are too few to count; the tail goes on as Student's t does."""
_SMALLEST = 1e-100
"""p is not looked for below this."""


def interval_of(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a mean: `share_interval` of values that are all 0 or 1, else `mean_interval`."""
    # values: (n,) one value per query; finite.
    # clusters: (n,) the image or item of each query; None takes each query as its own unit.
    # Returns: (low, high); (NaN, NaN) where there is none.
    array = np.asarray(values, np.float64)
    if len(array) and np.isin(array, (0.0, 1.0)).all():
        return share_interval(array, clusters, level=level)
    return mean_interval(array, clusters, level=level)


def measure_interval(measure: str, values: object, clusters: object = None) -> tuple[float, float]:
    """The 95 % interval of what is printed of a measure: of its median where that is printed, else `interval_of`."""
    # values: (n,) one value per query.
    # clusters: (n,) the image or item of each query; None takes each query as its own unit.
    base = base_of(measure)
    is_median = base in MEASURES and MEASURES.get(base).aggregate == "median"
    return (median_interval if is_median else interval_of)(values, clusters)


def median_interval(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a median: two of the values themselves (Woodruff 1952)."""
    # A value is below the median or not, so Wilson's interval of a share of one half says which of the sorted values
    # are the ends. With clusters, queries count as many as they are worth, as in `share_interval`.
    # values: (n,) one value per query; infinite ones are allowed ("not found").
    # clusters: (n,) the image or item of each query; None takes each query as its own unit.
    # Returns: (low, high); (NaN, NaN) of fewer than six values, which need not hold the median between them.
    check_level(level)
    array = np.sort(np.asarray(values, np.float64))
    if not len(array) or np.isnan(array).any():
        return NO_INTERVAL
    # Values that equal the median are half below it; without a spread the clusters count.
    below = (np.asarray(values, np.float64) <= np.median(array)).astype(np.float64)
    low, _ = wilson(0.5, *_effective(below, clusters, level))
    first = int(np.floor(len(array) * low + 1e-9))  # `first` values lie below the lower end, or at it
    return (float(array[first - 1]), float(array[-first])) if first else NO_INTERVAL


def share_interval(values: object, clusters: object = None, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share (1927), which is good for few queries and for shares near 0 and 1."""
    # With clusters, the number of queries is replaced by the effective one, which has the same error as the clusters
    # (Korn & Graubard 1998). Where all values are equal there is no such error; then every cluster counts as one query.
    # values: (n,) zeros and ones.
    # clusters: (n,) the image or item of each query; None takes each query as its own unit.
    # Returns: (low, high), in [0, 1].
    array = np.asarray(values, np.float64)
    return wilson(float(array.mean()), *_effective(array, clusters, level))


def difference_interval(
    values: object, baseline: object, clusters: object = None, *, level: float = 0.95
) -> tuple[float, float]:
    """The confidence interval of the mean of `values` − `baseline`, paired."""
    # - Hits (both sides 0 or 1): Agresti and Min (2005), half a query added to each of the four outcomes. Near a
    #   ceiling most differences are 0, and Student's t is then too narrow, or has no interval at all. With clusters the
    #   number of queries is the effective one, as in `share_interval`.
    # - Six to nine units: the interval that belongs to the exact sign-flip test, from the means of all subsets of units
    #   (Hartigan 1969). It contains 0 exactly when p of `paired_t` is above 1 − `level`.
    # - Otherwise `mean_interval`. With two to five units it rests on differences that are about normal.
    # values: (n,) one value per query of one system; finite.
    # baseline: (n,) those of the other.
    # clusters: (n,) the image of each query; None takes each query as its own unit.
    # Returns: (low, high); (NaN, NaN) of a single unit, and where there is no spread.
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


@dataclass(frozen=True)
class TestedDifference:
    """A difference of two means with an interval and a p that belong together."""

    # p is below α exactly where the interval of the level 1 − α leaves out 0: the interval holds every difference that
    # the test does not reject.

    p: float  # the two-sided p-value; NaN where there is no test
    low: float  # the lower end of the interval; NaN where there is none
    high: float  # the upper end


NOT_TESTED = TestedDifference(nan, nan, nan)


def paired_with_test(values: Floats, baseline: Floats, *, level: float = 0.95) -> TestedDifference:
    """The difference of two means over the same units, with the test that its interval inverts."""
    # - Hits: p is the larger of McNemar's exact one and that of Agresti and Min; the interval holds theirs and the
    #   exact one of the hits that differ. So neither few units nor hits that all differ make it too narrow.
    # - Other values: from ten units on the paired t-test; from six on sign flips and their interval
    #   (`difference_interval`). Fewer cannot be significant at 5 % by sign flips, and have no interval.
    # values: (n,) one value per unit; finite.
    # baseline: (n,) those of the other side.
    check_level(level)
    if len(values) < 2:
        return NOT_TESTED
    differences = values - baseline
    if np.isin((values, baseline), (0.0, 1.0)).all():
        gained, lost = float((differences > 0).sum()), float((differences < 0).sum())

        def ends(error: float) -> tuple[float, float]:
            wide = _of_paired_hits(differences, None, 1 - error)
            low, high = (2 * end - 1 for end in _exact_ends(gained, gained + lost, error))
            share = (gained + lost) / len(differences)
            return min(wide[0], share * low), max(wide[1], share * high)

        return _inverted(ends, level)
    low, high = difference_interval(values, baseline, level=level) if len(values) >= FEWEST_UNITS else NO_INTERVAL
    return TestedDifference(paired_t(differences).p, low, high)


def independent_with_test(
    values: Floats, units: object, baseline: Floats, baseline_units: object, *, level: float = 0.95
) -> TestedDifference:
    """The difference of two means over different units, with the test that its interval inverts."""
    # - Hits: each side has the exact interval of a share (Clopper and Pearson 1934), over as many queries as it is
    #   worth where several are of one unit (Korn and Graubard 1998). Both make that of the difference (Newcombe 1998;
    #   MOVER: Zou and Donner 2008). It holds for rare hits, for sides of very unequal size, and for a side without a
    #   hit.
    # - Other values: Welch's t, judged by what it is where units are given to the sides at random (Janssen 1997; Chung
    #   and Romano 2013), exact where both sides have one distribution. For the interval the values of one side are
    #   moved by each supposed difference. A side with a single unit is not tested, and of few units there is no
    #   interval.
    # values: (n,) one value per query of one side; finite.
    # units: (n,) the image or item of each query.
    # baseline: (m,) those of the other side.
    # baseline_units: (m,) likewise.
    check_level(level)
    sides = [(values, units), (baseline, baseline_units)]
    if all(np.isin(side, (0.0, 1.0)).all() for side, _ in sides):
        shares = _shares(sides)
        return _inverted(lambda error: _of_two_shares(shares, error), level)
    return _of_shuffles([unit_sums(*side) for side in sides], level)


def _inverted(ends: Callable[[float], tuple[float, float]], level: float) -> TestedDifference:
    """p as the error at which an interval, `ends` of the error, begins to hold 0."""
    from scipy.optimize import brentq

    def gap(logarithm: float) -> float:
        low, high = ends(float(np.exp(logarithm)))
        return max(low, -high)

    first, last = float(np.log(_SMALLEST)), 0.0
    if gap(last) <= 0:
        p = 1.0
    elif gap(first) > 0:
        p = 0.0
    else:
        p = float(np.exp(brentq(gap, first, last, xtol=1e-10)))
    return TestedDifference(p, *ends(1 - level))


def _exact_ends(hits: float, count: float, error: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share; `count` need not be a whole number."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, count - hits + 1, error / 2)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - error / 2)) if hits < count else 1.0
    return low, high


@dataclass(frozen=True)
class _Share:
    """A share, how many independent queries it is worth, and the degrees of freedom that this was estimated with."""

    share: float
    worth: float
    freedom: float

    def ends(self, error: float) -> tuple[float, float]:
        """The exact interval of this share; with few units it is as much wider as Student's t is than the normal."""
        from scipy.special import ndtri, stdtrit

        tail = min(error, 0.999) / 2  # at an error of 1 both quantiles are 0
        wider = 1.0 if np.isinf(self.freedom) else float(stdtrit(self.freedom, tail) / ndtri(tail))
        count = self.worth / wider**2
        low, high = _exact_ends(self.share * count, count, error)
        return min(low, self.share), max(high, self.share)


def _shares(sides: Sequence[tuple[Floats, object]]) -> list[_Share]:
    """What the hits of each side are worth."""
    # Queries of one unit are at least as alike as they are on both sides together: a side of few units, or with few
    # hits, shows by chance that its queries are independent.
    parts = [(hits, float(hits.mean()), *unit_sums(hits, units)) for hits, units in sides]
    between = sum(
        float(((sums - sizes * share) ** 2).sum() - ((hits - share) ** 2).sum()) for hits, share, sums, sizes in parts
    )
    most = sum(share * (1 - share) * float((sizes * (sizes - 1)).sum()) for _, share, _, sizes in parts)
    alike = min(1.0, max(0.0, between / most)) if most > 0 else 1.0
    shares = []
    for (hits, share, _, sizes), (_, units) in zip(parts, sides, strict=True):
        count, squares = float(len(hits)), float((sizes**2).sum())
        if sizes.max() == 1:
            shares.append(_Share(share, count, np.inf))
        elif len(sizes) == 1:
            shares.append(_Share(share, 0.0, np.inf))  # one unit with several queries says nothing: 0 to 1
        else:
            worth = min(_effective(hits, units, 0.95)[0], count / (1 + (squares / count - 1) * alike))
            shares.append(_Share(share, worth, count**2 / squares - 1))
    return shares


def _of_two_shares(shares: Sequence[_Share], error: float) -> tuple[float, float]:
    """The interval of the difference of two independent shares, from the exact intervals of both."""
    (low, high), (other_low, other_high) = (share.ends(error) for share in shares)
    first, second = (share.share for share in shares)
    below, above = np.hypot(first - low, other_high - second), np.hypot(high - first, second - other_low)
    return first - second - float(below), first - second + float(above)


def _of_shuffles(sides: Sequence[tuple[Floats, Floats]], level: float) -> TestedDifference:
    """Welch's t of units with sums and sizes, judged by shuffles of them."""
    if any(len(sums) < 2 for sums, _ in sides):
        return NOT_TESTED
    means = [float(sums.sum() / sizes.sum()) for sums, sizes in sides]
    difference = means[0] - means[1]
    parts = [mean_and_error(*side)[1:] for side in sides]
    error = float(np.sqrt(sum(part**2 for part, _ in parts)))
    if error <= 1e-12 * max(1.0, abs(difference)):
        return NOT_TESTED
    freedom = error**4 / sum(part**4 / free for part, free in parts)
    shuffles = _Shuffles(error, freedom, *_shuffled(sides, means), *(len(sums) for sums, _ in sides))
    p, alpha = shuffles.p(-difference), round(1 - level, 12)  # 1 − 0.95 is a little above 0.05, and p may be 0.05
    ends = [shuffles.end(sign, alpha, -difference, p) for sign in (-1, 1)]
    return TestedDifference(p, *(NO_INTERVAL if np.isinf(ends).any() else (difference + end for end in ends)))


@dataclass(frozen=True, eq=False)
class _Shuffles:
    """What Welch's t is where units are given to the sides at random, for every supposed difference."""

    error: float  # the standard error of the observed difference
    freedom: float  # its degrees of freedom
    # (shuffles, 2) the shuffled difference: its constant, and what is taken off for each unit of a shift.
    of_mean: Floats
    of_square: Floats  # (shuffles, 3) its squared error: constant, per shift, per squared shift
    first: int  # how many units the first side has
    second: int  # how many the second

    def p(self, shift: float) -> float:
        """p of the difference that lies `shift` above the observed one: values of the first side are moved by it."""
        from scipy.special import binom, stdtr, stdtrit

        squares = self.of_square @ [1.0, shift, shift**2]
        squares[squares <= 1e-12 * (self.of_square[:, 0] + self.of_square[:, 2] * shift**2)] = 0.0
        gaps = np.abs(self.of_mean @ [1.0, -shift])
        gaps[gaps <= 1e-9 * abs(shift)] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.where(gaps == 0, 0.0, gaps / np.sqrt(squares))
        statistic = abs(shift) / self.error * (1 - 1e-9)  # equal sums, added in another order, differ in the last bits
        hits, tail = int((drawn >= statistic).sum()), round(_TAIL * (_SHUFFLES + 1))
        if hits >= tail:
            return (1 + hits) / (_SHUFFLES + 1)
        # Too few to count: from where 1 % are as far out, p falls as that of Student's t does, but not below that of
        # the shuffles there are.
        begins = float(np.partition(drawn, -tail)[-tail])
        scale = min(1.0, float(-stdtrit(self.freedom, _TAIL / 2)) / begins)
        students = float(2 * stdtr(self.freedom, -statistic * scale))
        least = max(hits / (_SHUFFLES + 1), 2 / float(binom(self.first + self.second, self.first)))
        return max(least, min(_TAIL, students))

    def end(self, sign: int, alpha: float, zero: float, p_zero: float) -> float:
        """The shift at which p falls below `alpha` on one side, infinite for never; `zero` lies where its p says."""
        inner, outer = 0.0, sign * self.error
        if sign * zero > 0:  # a difference of 0 lies on this side
            if p_zero < alpha:
                outer = zero
            else:
                inner, outer = zero, zero + sign * self.error
        if not (sign * zero > 0 and p_zero < alpha):
            for _ in range(40):
                if self.p(outer) < alpha:
                    break
                inner, outer = outer, 2 * outer
            else:
                return sign * np.inf
        for _ in range(40):
            middle = (inner + outer) / 2
            inner, outer = (inner, middle) if self.p(middle) < alpha else (middle, outer)
        return inner


def _shuffled(sides: Sequence[tuple[Floats, Floats]], means: Sequence[float]) -> tuple[Floats, Floats]:
    """The parts of Welch's t, as in `_Shuffles`, where units are given to the sides at random; a fixed seed."""
    rest = np.concatenate([sums - mean * sizes for (sums, sizes), mean in zip(sides, means, strict=True)])
    rest = without_rounding(rest, np.concatenate([np.abs(sums) for sums, _ in sides]))
    sizes, first = np.concatenate([sizes for _, sizes in sides]), len(sides[0][0])
    moved = np.where(np.arange(len(rest)) < first, sizes, 0.0)
    rng, of_mean, of_square = np.random.default_rng(0), np.zeros((_SHUFFLES, 2)), np.zeros((_SHUFFLES, 3))
    step = max(1, 1_000_000 // len(rest))
    for start in range(0, _SHUFFLES, step):
        rows = slice(start, min(start + step, _SHUFFLES))
        order = rng.permuted(np.broadcast_to(np.arange(len(rest)), (rows.stop - start, len(rest))), axis=1)
        for sign, chosen in ((1, order[:, :first]), (-1, order[:, first:])):
            of, units = sizes[chosen], chosen.shape[1]
            queries = of.sum(axis=1, keepdims=True)
            gaps = []  # the mean without a unit, minus the mean: of what is left over, and of a shift of 1
            for number, own in enumerate((rest[chosen], moved[chosen])):
                mean = own.sum(axis=1, keepdims=True) / queries
                of_mean[rows, number] += sign * mean[:, 0]
                gaps.append((of * mean - own) / (queries - of))
            products = [(gaps[0] ** 2).sum(axis=1), -2 * (gaps[0] * gaps[1]).sum(axis=1), (gaps[1] ** 2).sum(axis=1)]
            of_square[rows] += (units - 1) / units * np.stack(products, axis=1)
    return of_mean, of_square
