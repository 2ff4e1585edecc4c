"""Intervals of shares and rates over sessions, when sessions of one visitor hang together.

A share is estimated from visitors, each of whom brings all sessions; so its variance is that of a ratio of two sums
over visitors (linearised): with y sessions of n counted at visitor u, p = Σy / Σn,

    var p = m / (m − 1) · Σ (y − p·n)² / (Σn)²,   m visitors.

The *design effect* is that variance over p(1 − p) / Σn, and Wilson's interval is taken over Σn / design effect sessions
with the quantile of Student's t at m − 1 degrees of freedom (Korn and Graubard 1998; Dean and Pagano 2015). The other
common way, Wilson over all sessions as if they were independent, is too narrow where visitors come often.

None of these says how another week, or another shop, would differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from visir.sessions.describe.statistic import Value

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over visitors: y counted of n (`y`, `n`), their products (`yy`, `yn`, `nn`), and the visitors with n > 0."""

    y: float
    yy: float
    yn: float
    n: float
    nn: float
    units: int

    @property
    def variance(self) -> float:
        """Variance of y / n; infinite where fewer than two visitors leave it open."""
        if self.units < 2:
            return float("inf")
        p = self.y / self.n
        left = max(self.yy - 2 * p * self.yn + p * p * self.nn, 0.0)
        return self.units / (self.units - 1) * left / self.n**2

    @property
    def effective(self) -> float:
        """How many independent sessions the share is worth.

        Where all or none count, the variance says nothing: sessions of a visitor are then taken to be all alike.
        """
        p = self.y / self.n
        if not 0 < p < 1 or self.variance in (0.0, float("inf")):
            return self.n**2 / self.nn
        return p * (1 - p) / self.variance


def share(of: Moments, *, scale: float = 100.0) -> Value:
    """y / n in percent with its interval; no value where n is 0."""
    if not of.n:
        return Value(None, support=0)
    low, high = wilson(of.y / of.n, of.effective, quantile(of.units))
    return Value(scale * of.y / of.n, scale * low, scale * high, support=int(of.y))


def mean(of: Moments, *, support: int) -> Value:
    """y / n for a y that is no part of n (queries per session), with a normal interval that stays above 0."""
    if not of.n:
        return Value(None, support=0)
    value, half = of.y / of.n, quantile(of.units) * sqrt(of.variance)
    if of.units < 2:
        return Value(value, support=support)
    return Value(value, max(0.0, value - half), value + half, support=support)


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share p of n (which need not be whole): it stays in [0, 1] and is never a point."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))


def quantile(units: int) -> float:
    """Student's t at the upper 2.5 % for so many visitors; 1.96 for many."""
    from scipy.special import stdtrit

    return float(stdtrit(max(units - 1, 1), 0.5 + CONFIDENCE / 2))


def standardised(rates: Sequence[float], variances: Sequence[float] | None = None) -> list[Value]:
    """(rate − mean over the groups) / standard deviation over the groups, of a population (thesis section 6.2).

    {0.5, 0.2, 0.3} give 1.34, −1.07, −0.27. Mean and deviation are over groups, not over sessions: a rare device counts
    as much as a common one. The standard deviation of a sample (n − 1), which Table 6.2 seems to use, would make all
    values smaller by √((n − 1) / n). No values where all rates are equal or there is only one group.

    With the rates' variances, intervals come from the derivatives (delta method), the groups taken as independent:
    ∂z_i/∂r_j = (δ_ij − (1 + z_i z_j) / k) / σ. They are cut at ±√(k − 1), beyond which no standardised value can lie.
    """
    k = len(rates)
    middle = sum(rates) / k if k else 0.0
    sigma = sqrt(sum((one - middle) ** 2 for one in rates) / k) if k else 0.0
    if sigma <= 1e-12:
        return [Value(None) for _ in rates]
    z = [(one - middle) / sigma for one in rates]
    if variances is None:
        return [Value(one) for one in z]
    found, bound = [], sqrt(k - 1)
    for i, one in enumerate(z):
        slopes = [((i == j) - (1 + one * other) / k) / sigma for j, other in enumerate(z)]
        half = 1.96 * sqrt(sum(slope**2 * var for slope, var in zip(slopes, variances, strict=True)))
        found.append(Value(one, max(-bound, one - half), min(bound, one + half)))
    return found
