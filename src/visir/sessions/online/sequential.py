"""Intervals and tests that may be looked at as often as one likes.

**Difference of two means.** At t units, with d̂ the difference of the means and σ̂² = t (s₁² / n₁ + s₀² / n₀), the
asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas ("Time-uniform central limit theory
and asymptotic confidence sequences", Annals of Statistics 52(6), 2024, Theorem 2.2) is

    d̂ ± σ̂ √( 2 (tρ² + 1) / (t²ρ²) · log( √(tρ² + 1) / α ) ).

With probability 1 − α, asymptotically, it holds the true difference at every t at once, and so at whatever t one stops.
It is the interval of the mixture sequential probability ratio test with a normal mixture (Robbins 1970; Johari, Koomen,
Pekelis and Walsh 2022), whose p-value is p = √(tρ² + 1) · exp(−t²ρ²d̂² / (2σ̂² (tρ² + 1))): p < α where the interval
leaves 0 out. ρ only decides at which t the interval is narrowest: ρ² = (−2 log α + log(1 − 2 log α)) / t* for t* units.

The theorem is of large samples. Where outcomes are rare, few of them are none: nothing is concluded before each variant
has `LEAST_OUTCOMES` units with an outcome other than 0. Where all outcomes are 0 or 1, it also needs as many with 0:
a small variant that has no 0 yet has no variance, and at a rate of 99 % and a share of .1 an interval without this
left out 0 in 27 % of tests without a difference.

**Amounts.** Of amounts with a long tail a small variant has often not seen the large ones yet. Then its mean and its
variance are both too small, and with shares of .1 and .9 it was called worse in up to 30 % of tests without a
difference. So each variance is at least the pooled one, (Σ (nᵢ − 1) sᵢ²) / (Σ (nᵢ − 1)), as soon as an outcome is
neither 0 nor 1. A larger variance only widens the interval; it costs power where amounts spread less in the small
variant. What no variant has seen yet cannot be known from the log: where one variant changes the *form* of the tail
itself, only amounts that are cut at a value fixed before the test keep the promise (`visir.sessions.ab_test(most=…)`).
Measured in `benchmarks/calibration_sessions.py`.

**Sample ratio.** Whether the units are spread over the variants as planned is tested with the sequential multinomial
test of Lindon and Malek ("Anytime-valid inference for multinomial count data", NeurIPS 2022): with shares θ, counts n
and a Dirichlet prior of parameters kθ, the Bayes factor is a martingale under the plan. So p = min over time of 1 / B
is valid at every t, exactly:

    B = Γ(k) / Γ(k + Σn) · Π Γ(kθᵢ + nᵢ) / Γ(kθᵢ) / Π θᵢ^nᵢ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

ERROR = 0.05
PLANNED = 10_000
"""Units at which the interval is narrowest, by default."""

LEAST_OUTCOMES = 10
"""Units with an outcome other than 0, and of 0 where all are 0 or 1, that a variant needs before a conclusion."""

CONCENTRATION = 100.0
"""k of the sample ratio test: a prior worth so many units."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """Running sums over the units of a variant: numbers, or arrays with one entry per look."""

    units: Floats  # how many
    y: Floats  # Σ of their outcomes
    yy: Floats  # Σ of their squared outcomes
    other: Floats  # units whose outcome is not 0

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
    """The difference of two variants, look by look."""

    difference: Floats  # the mean of the first minus that of the second
    low: Floats  # lower end of the interval; −∞ where nothing is concluded yet
    high: Floats  # upper end
    p: Floats  # the smallest p-value up to each look; 1 where nothing is concluded yet


def difference_over_time(
    first: Sums, second: Sums, *, error: float = ERROR, planned: int = PLANNED
) -> DifferenceOverTime:
    """The always-valid interval of a difference of means at every look, and the p-value."""
    t = first.units + second.units
    rho = (-2 * np.log(error) + np.log1p(-2 * np.log(error))) / planned
    difference = first.mean - second.mean
    spreads = _spreads(first, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = t * (spreads[0] / first.units + spreads[1] / second.units)
        width = np.sqrt(variance * 2 * (t * rho + 1) / (t**2 * rho) * np.log(np.sqrt(t * rho + 1) / error))
        log_p = np.log(t * rho + 1) / 2 - t**2 * rho * difference**2 / (2 * variance * (t * rho + 1))
    least = np.minimum(first.other, second.other)
    zeros = np.minimum(first.units - first.other, second.units - second.other)
    least = np.where(_are_amounts(first, second), least, np.minimum(least, zeros))
    known = (least >= LEAST_OUTCOMES) & (variance > 0)
    p = np.minimum.accumulate(np.where(known, np.exp(np.minimum(log_p, 0.0)), 1.0))
    width = np.where(known, width, np.inf)
    return DifferenceOverTime(difference, difference - width, difference + width, p)


def _are_amounts(first: Sums, second: Sums) -> NDArray[np.bool_]:
    """Whether an outcome so far is neither 0 nor 1."""
    return np.asarray((first.yy != first.y) | (second.yy != second.y))


def _spreads(first: Sums, second: Sums) -> tuple[Floats, Floats]:
    """The variance of each side, at least the pooled one where an outcome is an amount, not 0 or 1."""
    sides = first, second
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = sum(side.units - 1 for side in sides)
        pooled = sum((side.units - 1) * side.variance for side in sides) / freedom
    least = np.where(_are_amounts(first, second), pooled, 0.0)
    return np.maximum(first.variance, least), np.maximum(second.variance, least)


def sample_ratio_p(counts: ArrayLike, shares: ArrayLike) -> Floats:
    """The p-value of the planned shares at every look: the smallest 1 / B so far."""
    # counts: (looks, variants) units so far.
    # shares: (variants,) planned, adding up to 1.
    from scipy.special import gammaln

    n, theta = np.asarray(counts, np.float64), np.asarray(shares, np.float64)
    prior = CONCENTRATION * theta
    log_b = gammaln(CONCENTRATION) - gammaln(CONCENTRATION + n.sum(axis=1))
    log_b = log_b + (gammaln(prior + n) - gammaln(prior) - n * np.log(theta)).sum(axis=1)
    return np.asarray(np.minimum.accumulate(np.exp(np.minimum(-log_b, 0.0))), np.float64)
