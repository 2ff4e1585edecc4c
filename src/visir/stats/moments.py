"""Estimates from sums over units that an engine added up, where the units (visitors) bring many cases (sessions) each.

A share is estimated from visitors, each of whom brings all sessions; so its variance is that of a ratio of two sums
over visitors (linearised): with y sessions of n counted at visitor u, p = Σy / Σn,

    var p = m / (m − 1) · Σ (y − p·n)² / (Σn)²,   m = (Σn)² / Σn².

m is how many visitors of equally many sessions these are worth (Kish 1965). Where all come equally often it is their
number; where a few have most of the sessions it is small, and the number of all visitors would promise too much.

The *design effect* is that variance over p(1 − p) / Σn, and Wilson's interval is taken over Σn / design effect
sessions with the quantile of Student's t at m − 1 degrees of freedom (Korn and Graubard 1998; Dean and Pagano 2015).
The other common way, Wilson over all sessions as if they were independent, is too narrow where visitors come often.

None of these says how another week, or another shop, would differ.

Two intervals that overlap say nothing of the difference: its standard error is smaller than the sum of theirs, and one
visitor may have sessions in both groups. So the difference d = p₁ − p₂ has an interval of its own, made of the
intervals [lᵢ, uᵢ] of the two values and the correlation ρ of their estimates over visitors (MOVER: Zou and Donner 2008;
Newcombe's method 10 of 1998 where ρ = 0):

    d − √((p₁ − l₁)² − 2ρ(p₁ − l₁)(u₂ − p₂) + (u₂ − p₂)²)  …  d + √((u₁ − p₁)² − 2ρ(u₁ − p₁)(p₂ − l₂) + (p₂ − l₂)²)

p is the smallest error rate at which the interval leaves 0 out, so that test and interval never disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Literal

import numpy as np

from visir.errors import VisirError
from visir.stats.differences import TestedDifference
from visir.stats.means import NO_INTERVAL, Estimate, Floats, Interval, check_level, normal_quantile, wilson

Counted = Literal["share", "mean"]

LEVEL = 0.95
SMALL = 5.0
"""A rate worth fewer cases than this, of either outcome, is left out of standardised rates."""
LEAST_CASES = 5
"""Cases that a group is expected to have, at least, for a test; of a mean, units."""
DOMINATED = 10.0
"""Cases that are worth those of fewer units than this are a few units', if there are many more."""
_DRAWS = 4000
_SMALLEST, _LARGEST, _STEPS = 1e-12, 0.999, 60


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over units (visitors), of a count y among a count n.

    Attributes:
        y: Σ y.
        yy: Σ y².
        yn: Σ y·n.
        n: Σ n.
        nn: Σ n².
        units: Units with n > 0.
    """

    y: float
    yy: float
    yn: float
    n: float
    nn: float
    units: int

    @property
    def visitors(self) -> float:
        """How many units of equally many cases these are worth (Kish); 0 without any."""
        return self.n**2 / self.nn if self.nn else 0.0

    @property
    def is_dominated(self) -> bool:
        """Whether a few units have most of the cases; the largest then has more than a tenth."""
        return self.visitors < min(DOMINATED, self.units / 2)

    @property
    def variance(self) -> float:
        """Variance of y / n; infinite where fewer than two units leave it open, 0 where all have the same rate."""
        if self.units < 2:
            return float("inf")
        p = self.y / self.n
        terms = (self.yy, -2 * p * self.yn, p * p * self.nn)
        left = sum(terms)
        if left <= 1e-9 * max(terms):  # nothing but rounding
            return 0.0
        return self.visitors / (self.visitors - 1) * left / self.n**2

    @property
    def effective(self) -> float:
        """How many independent cases the share is worth; no more than there are."""
        # Where all or none count, or all units have the same rate, the variance says nothing: cases of a unit are then
        # taken to be all alike.
        p = self.y / self.n
        if not 0 < p < 1 or self.variance in (0.0, float("inf")):
            return self.visitors
        return min(p * (1 - p) / self.variance, self.n)

    @property
    def is_small(self) -> bool:
        """Whether the share is worth fewer than five cases that count, or five that do not."""
        return not self.n or min(self.y, self.n - self.y) / self.n * self.effective < SMALL

    def quantile(self, level: float = LEVEL) -> float:
        """Student's t at the upper end of a level, with the degrees of freedom of so many units."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.visitors - 1, 1.0), 0.5 + level / 2))


def of_moments(moments: Moments, *, kind: Counted = "share", at: float | None = None, level: float = LEVEL) -> Estimate:
    """Estimate y / n from sums over units, where cases of one unit are not independent.

    A share (y of the n cases count) has Wilson's interval over as many cases as it is worth. A mean per case (y is no
    part of n: queries per session) has Garwood's interval of a Poisson count, of as many counts as the mean is worth by
    its variance over units: it stays above 0 and is wide where little was counted, where a normal interval would be a
    point at 0. Both assume that units are independent, and are good from about thirty units on; they are too narrow
    where a few units have most of the cases (`Moments.is_dominated`), above all where those also act otherwise.

    Args:
        moments: The sums.
        kind: "share" or "mean".
        at: Of a percentile turned around (Woodruff 1952): the share of cases that are no higher is this by definition,
            and the sums only say how many cases it is worth. The ends are shares, at which percentiles stand.
        level: How often the interval is to hold the truth, between 0 and 1.

    Returns:
        The value and its interval; NaN where n is 0.

    Raises:
        VisirError: More cases count than there are, or the level is none.

    Source:
        Korn and Graubard, Survey Methodology 24, 1998; Dean and Pagano, Journal of Survey Statistics and Methodology
        3(4), 2015; Garwood, Biometrika 28, 1936.

    Example:
        >>> from visir import stats
        >>> visits = stats.Moments(y=20, yy=20, yn=20, n=100, nn=100, units=100)  # 100 visitors with a session each
        >>> found = stats.of_moments(visits)
        >>> found.value, round(found.low, 2), round(found.high, 2)
        (0.2, 0.13, 0.29)
    """
    check_level(level)
    if kind == "share" and at is None and not 0 <= moments.y <= moments.n * (1 + 1e-9):
        raise VisirError(
            f"{moments.y:g} of {moments.n:g} cases is no share.", hint='kind="mean"', code="share-of-others"
        )
    if not moments.n:
        return Estimate(nan, *NO_INTERVAL, level, moments.units)
    value = moments.y / moments.n
    if kind == "mean":
        return Estimate(value, *_garwood(moments, level), level, moments.units, "Garwood over units")
    share = value if at is None else at
    ends = wilson(share, moments.effective, moments.quantile(level))
    return Estimate(share, *ends, level, moments.units, "Wilson over units")


def _garwood(moments: Moments, level: float) -> Interval:
    # As many counts as the mean is worth, r² / var, give it that much spread. Where nothing was counted, or all units
    # have the same mean, cases of a unit are taken to be alike. The counts are lowered by (z / t)², with t as in a
    # share (Korn and Graubard 1998): a few units are no Poisson count.
    from scipy.special import chdtri

    value, tail = moments.y / moments.n, (1 - level) / 2
    if not moments.y:
        return 0.0, float(chdtri(2, tail)) / 2 * moments.nn / moments.n**2
    spread = moments.variance if 0 < moments.variance < float("inf") else value / moments.visitors
    counts = value**2 / spread * (normal_quantile(level) / moments.quantile(level)) ** 2
    low, high = (
        float(chdtri(2 * k, probability)) / (2 * counts) for k, probability in ((counts, 1 - tail), (counts + 1, tail))
    )
    return value * low, value * high


def standardised_rates(groups: Sequence[Moments]) -> list[Estimate]:
    """Standardise rates y / n: minus their mean over the groups, divided by their standard deviation over the groups.

    The deviation is that of a population: rates {0.5, 0.2, 0.3} give {1.34, −1.07, −0.27} (thesis section 6.2). Mean
    and deviation are over groups, not over cases: a rare group counts as much as a common one. So a group whose rate is
    hardly known (`Moments.is_small`) would move all the others; it is left out. The 95 % intervals are of 4,000 draws
    of all rates: each from the Beta distribution of Jeffreys with as many cases as the rate is worth, the groups
    independent. The derivatives of z (delta method) would do for common groups, but not where one has hardly any
    cases that count: it moves all the others.

    Args:
        groups: The sums of each group.

    Returns:
        An estimate for each group; all NaN for one that is left out, and where all rates are equal or there is only
        one.

    Example:
        >>> from visir import stats
        >>> rates = [stats.Moments(y, y, y, 1_000, 1_000, 1_000) for y in (500, 200, 300)]
        >>> [round(one.value, 2) for one in stats.standardised_rates(rates)]
        [1.34, -1.07, -0.27]
    """
    # The deviation of a sample (n − 1), which Table 6.2 seems to use, would make all values smaller by √((k − 1) / k)
    # of k groups.
    none = Estimate(nan, *NO_INTERVAL)
    standing = [group for group in groups if not group.is_small]
    rates = np.array([group.y / group.n for group in standing])
    if len(rates) < 2 or rates.std() <= 1e-12:
        return [none for _ in groups]
    worth = np.array([group.effective for group in standing])
    drawn = np.random.default_rng(0).beta(rates * worth + 0.5, (1 - rates) * worth + 0.5, (_DRAWS, len(rates)))
    ends = np.quantile(_standard(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    z = _standard(rates[None])[0]
    # Near the bound of √(k − 1) all draws can lie on one side of the value.
    estimates = iter(
        Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)), LEVEL, group.units)
        for value, low, high, group in zip(z, *ends, standing, strict=True)
    )
    return [none if group.is_small else next(estimates) for group in groups]


def _standard(rates: Floats) -> Floats:
    """Row by row: rates minus their mean, divided by their standard deviation."""
    standard: Floats = (rates - rates.mean(axis=1, keepdims=True)) / rates.std(axis=1, keepdims=True)
    return standard


Cross = tuple[float, float, float, float]
"""Sums over the units of two groups: Σ y₁y₂, Σ y₁n₂, Σ n₁y₂, Σ n₁n₂."""


def difference_of_moments(
    first: Moments, second: Moments, cross: Cross = (0, 0, 0, 0), *, kind: Counted = "share", level: float = LEVEL
) -> TestedDifference:
    """Test whether y / n differs between two groups of cases, where one unit may have cases in both.

    The interval is made of those of both groups (MOVER) and the correlation of their estimates over units; p is the
    smallest error rate at which it leaves 0 out. It assumes that units are independent. Nothing is tested where, were
    both groups alike, one would have fewer than five cases of either outcome (Cochran 1954); of a mean, where a group
    has fewer than five units.

    Args:
        first: The sums of the first group.
        second: The sums of the second.
        cross: Σ y₁y₂, Σ y₁n₂, Σ n₁y₂, Σ n₁n₂ over the units; zeros where no unit is in both groups.
        kind: "share" or "mean", as in `of_moments`.
        level: How often the interval is to hold the truth, between 0 and 1.

    Returns:
        The first value minus the second, its interval and p; NaN where too few cases leave it open.

    Source:
        Zou and Donner, Statistics in Medicine 27(10), 2008; Newcombe, Statistics in Medicine 17(8), 1998.

    Example:
        >>> from visir import stats
        >>> first, second = (stats.Moments(y, y, y, n, n, n) for y, n in ((56, 70), (48, 80)))
        >>> found = stats.difference_of_moments(first, second)
        >>> round(found.value, 2), round(found.low, 2), round(found.high, 2), found.p < 0.05
        (0.2, 0.05, 0.34, True)
    """
    units = first.units + second.units
    if _is_open(first, second, kind):
        value = first.y / first.n - second.y / second.n if first.n and second.n else nan
        return TestedDifference(value, *NO_INTERVAL, nan, level, units, "", "too few cases")
    rho = _correlation(first, second, cross)

    def ends(level: float) -> Interval:
        (p1, l1, u1), (p2, l2, u2) = (
            (own.value, own.low, own.high)
            for own in (of_moments(group, kind=kind, level=level) for group in (first, second))
        )
        below = (p1 - l1) ** 2 - 2 * rho * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
        above = (u1 - p1) ** 2 - 2 * rho * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
        return p1 - p2 - sqrt(max(0.0, below)), p1 - p2 + sqrt(max(0.0, above))

    def leaves_out(error: float) -> bool:
        low, high = ends(1 - error)
        return low > 0 or high < 0

    least, p = _SMALLEST, _LARGEST
    if leaves_out(p):
        for _ in range(_STEPS):  # bisection on the logarithm
            middle = sqrt(least * p)
            least, p = (least, middle) if leaves_out(middle) else (middle, p)
    else:
        p = 1.0
    return TestedDifference(first.y / first.n - second.y / second.n, *ends(level), p, level, units, "MOVER over units")


def _is_open(first: Moments, second: Moments, kind: Counted) -> bool:
    """Whether there are too few cases for a test."""
    groups = (first, second)
    if any(group.units < 2 for group in groups):
        return True
    if kind == "mean":
        return not (first.y and second.y) or min(group.visitors for group in groups) < LEAST_CASES
    both = sum(group.y for group in groups) / sum(group.n for group in groups)
    return min(both, 1 - both) * min(group.effective for group in groups) < LEAST_CASES


def _correlation(first: Moments, second: Moments, cross: Cross) -> float:
    """Correlation of the two estimates y / n over the units (linearised); 0 where no unit is in both groups."""
    p1, p2 = (group.y / group.n for group in (first, second))
    yy, yn, ny, nn = cross
    covariance = (yy - p2 * yn - p1 * ny + p1 * p2 * nn) / (first.n * second.n)
    spread = sqrt(first.variance * second.variance)
    return max(-1.0, min(1.0, covariance / spread)) if 0 < spread < float("inf") else 0.0
