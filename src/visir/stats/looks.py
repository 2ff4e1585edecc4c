"""Intervals and tests that may be looked at as often as one likes, and the chance of counts.

**Difference of two means.** At t units, with d̂ the difference of the means and σ̂² = t (s₁² / n₁ + s₀² / n₀), the
asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas ("Time-uniform central limit theory
and asymptotic confidence sequences", Annals of Statistics 52(6), 2024, Theorem 2.2) is

    d̂ ± σ̂ √( 2 (tρ² + 1) / (t²ρ²) · log( √(tρ² + 1) / α ) ).

With probability 1 − α, asymptotically, it holds the true difference at every t at once, and so at whatever t one
stops. It is the interval of the mixture sequential probability ratio test with a normal mixture (Robbins 1970;
Johari, Koomen, Pekelis and Walsh 2022), whose p-value is p = √(tρ² + 1) · exp(−t²ρ²d̂² / (2σ̂² (tρ² + 1))): p < α
where the interval leaves 0 out. ρ only decides at which t the interval is narrowest: ρ² = (−2 log α + log(1 − 2 log
α)) / t* for t* units.

The theorem is of large samples. Where outcomes are rare, few of them are none: nothing is concluded before each
variant has `LEAST_OUTCOMES` units with an outcome other than 0. Where all outcomes are 0 or 1, it also needs as many
with 0: a small variant that has no 0 yet has no variance, and at a rate of 99 % and a share of .1 an interval without
this left out 0 in 27 % of tests without a difference.

**Amounts.** Of amounts with a long tail a small variant has often not seen the large ones yet. Then its mean and its
variance are both too small, and with shares of .1 and .9 it was called worse in up to 30 % of tests without a
difference. So each variance is at least the pooled one, (Σ (nᵢ − 1) sᵢ²) / (Σ (nᵢ − 1)), as soon as an outcome is
neither 0 nor 1. A larger variance only widens the interval; it costs power where amounts spread less in the small
variant. What no variant has seen yet cannot be known from the log: where one variant changes the *form* of the tail
itself, only amounts that are cut at a value fixed before the test keep the promise
(`visir.sessions.ab_test(most=…)`). Measured in `benchmarks/calibration_sessions.py`.

**Sample ratio.** Whether the units are spread over the variants as planned is tested with the sequential multinomial
test of Lindon and Malek ("Anytime-valid inference for multinomial count data", NeurIPS 2022): with shares θ, counts n
and a Dirichlet prior of parameters kθ, the Bayes factor is a martingale under the plan. So p = min over time of 1 / B
is valid at every t, exactly:

    B = Γ(k) / Γ(k + Σn) · Π Γ(kθᵢ + nᵢ) / Γ(kθᵢ) / Π θᵢ^nᵢ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from visir.errors import VisirError
from visir.stats.means import Floats, Interval, check_level, numbers

ERROR = 0.05
PLANNED = 10_000
"""Units at which the interval is narrowest, by default."""

LEAST_OUTCOMES = 10
"""Units with an outcome other than 0, and of 0 where all are 0 or 1, that a variant needs before a conclusion."""

CONCENTRATION = 100.0
"""k of the sample ratio test: a prior worth so many units."""


@dataclass(frozen=True)
class RunningSums:
    """Running sums over the units of a variant, with one entry per look.

    Attributes:
        units: How many units.
        y: Σ of their outcomes.
        yy: Σ of their squared outcomes.
        other: Units whose outcome is not 0.
    """

    units: Floats
    y: Floats
    yy: Floats
    other: Floats

    @property
    def mean(self) -> Floats:
        """The mean outcome per unit; NaN without units."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.y / self.units, np.float64)

    @property
    def variance(self) -> Floats:
        """The variance of a unit's outcome (n − 1); NaN of fewer than two units."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.yy - self.y**2 / self.units) / (self.units - 1), np.float64)


@dataclass(frozen=True)
class DifferenceOverTime:
    """The difference of two variants, look by look.

    Attributes:
        difference: The mean of the first minus that of the second.
        low: The lower end of the interval; −∞ where nothing is concluded yet.
        high: The upper end.
        p: The smallest p-value up to each look; 1 where nothing is concluded yet.
    """

    difference: Floats
    low: Floats
    high: Floats
    p: Floats


def sequential(
    first: RunningSums, second: RunningSums, *, error: float = ERROR, planned: int = PLANNED
) -> DifferenceOverTime:
    """Test the difference of two means at every look: it may be looked at, and stopped, at any time.

    It assumes that units are independent and many, and that both variants have seen what their outcomes can be. Nothing
    is concluded before each has ten units with an outcome other than 0, and of outcomes that are all 0 or 1 ten with 0.

    Args:
        first: The sums of a variant at every look.
        second: Those of the control.
        error: In how many tests without a difference the interval may ever leave out 0, between 0 and 1.
        planned: At how many units the interval is narrowest.

    Returns:
        The difference, its always-valid interval and p-value, look by look.

    Raises:
        VisirError: `error` is not between 0 and 1, or `planned` not above 0.

    Source:
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Annals of Statistics 52(6), 2024.

    Example:
        >>> import numpy as np
        >>> from visir import stats
        >>> variant, control = (stats.RunningSums(*np.array([[200.0], [y], [y], [y]])) for y in (80, 40))
        >>> now = stats.sequential(variant, control, planned=400)
        >>> round(float(now.difference[-1]), 2), bool(now.p[-1] < 0.05)
        (0.2, True)
    """
    check_level(1 - error)
    if not planned > 0:
        raise VisirError(f"the interval is narrowest at one unit or more, not at {planned}.", code="units-planned")
    sides, t = (first, second), first.units + second.units
    rho = (-2 * np.log(error) + np.log1p(-2 * np.log(error))) / planned
    difference = first.mean - second.mean
    are_amounts = (first.yy != first.y) | (second.yy != second.y)  # an outcome so far is neither 0 nor 1
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = sum((side.units - 1) * side.variance for side in sides) / sum(side.units - 1 for side in sides)
        least = np.where(are_amounts, pooled, 0.0)
        variance = t * sum(np.maximum(side.variance, least) / side.units for side in sides)
        width = np.sqrt(variance * 2 * (t * rho + 1) / (t**2 * rho) * np.log(np.sqrt(t * rho + 1) / error))
        log_p = np.log(t * rho + 1) / 2 - t**2 * rho * difference**2 / (2 * variance * (t * rho + 1))
    outcomes = np.minimum(first.other, second.other)
    zeros = np.minimum(first.units - first.other, second.units - second.other)
    outcomes = np.where(are_amounts, outcomes, np.minimum(outcomes, zeros))
    known = (outcomes >= LEAST_OUTCOMES) & (variance > 0)
    p = np.minimum.accumulate(np.where(known, np.exp(np.minimum(log_p, 0.0)), 1.0))
    width = np.where(known, width, np.inf)
    return DifferenceOverTime(difference, difference - width, difference + width, p)


def sample_ratio(counts: ArrayLike, shares: ArrayLike) -> Floats:
    """Test whether units are spread over variants as planned, at every look.

    The p-value is valid at whatever look one stops, for any number of units; it assumes that units are assigned
    independently.

    Args:
        counts: (looks, variants) units so far.
        shares: (variants,) planned, adding up to 1.

    Returns:
        (looks,) the p-value: the smallest 1 / B so far.

    Raises:
        VisirError: The counts fit no such shares, or become fewer.

    Source:
        Lindon and Malek, "Anytime-valid inference for multinomial count data", NeurIPS 2022.

    Example:
        >>> from visir import stats
        >>> [round(float(p), 3) for p in stats.sample_ratio([[10, 10], [500, 400]], [0.5, 0.5])]
        [1.0, 0.021]
    """
    from scipy.special import gammaln

    n, theta = numbers(counts), numbers(shares)
    if theta.ndim != 1 or not (theta > 0).all() or abs(theta.sum() - 1) > 1e-6:
        raise VisirError("planned shares are above 0 and add up to 1.", code="planned-shares")
    if n.ndim != 2 or n.shape[1] != len(theta) or not ((n >= 0) & (n < np.inf)).all():
        raise VisirError(
            "counts are (looks, variants), 0 or more.", hint="[[10, 10], [500, 400]]", code="counts-of-looks"
        )
    if (np.diff(n, axis=0) < 0).any():
        raise VisirError(
            "units so far never become fewer.", hint="numpy.cumsum(counts, axis=0) adds them up", code="units-so-far"
        )
    prior = CONCENTRATION * theta
    log_b = gammaln(CONCENTRATION) - gammaln(CONCENTRATION + n.sum(axis=1))
    log_b = log_b + (gammaln(prior + n) - gammaln(prior) - n * np.log(theta)).sum(axis=1)
    return np.asarray(np.minimum.accumulate(np.exp(np.minimum(-log_b, 0.0))), np.float64)


def counts_by_chance(cases: int, least: float, most: float, *, error: float = 1e-4) -> Interval:
    """Between which counts one of a share between `least` and `most` lies, but for `error` on each side (binomial).

    Args:
        cases: How many independent cases there are.
        least: The smallest share.
        most: The largest.
        error: How often a count may lie below, and above.

    Returns:
        (low, high), whole numbers.

    Example:
        >>> from visir import stats
        >>> stats.counts_by_chance(100, 0.5, 0.5, error=0.025)
        (40.0, 60.0)
    """
    from scipy.special import bdtr

    counts = np.arange(cases + 1.0)
    low, high = (
        np.searchsorted(bdtr(counts, cases, share), level) for share, level in ((least, error), (most, 1 - error))
    )
    return float(low), float(high)
