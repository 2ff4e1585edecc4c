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

import numpy as np
from numpy.typing import NDArray

from visir.sessions.describe.statistic import StatisticCell

CONFIDENCE = 0.95
DRAWS = 4000


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


def share(of: Moments, *, scale: float = 100.0) -> StatisticCell:
    """y / n in percent with its interval; no value where n is 0."""
    if not of.n:
        return StatisticCell(None, support=0)
    low, high = wilson(of.y / of.n, of.effective, quantile(of.units))
    return StatisticCell(scale * of.y / of.n, scale * low, scale * high, support=int(of.y))


def mean(of: Moments, *, support: int) -> StatisticCell:
    """y / n for a y that is no part of n (queries per session), with its interval; no value where n is 0.

    The interval is Garwood's for a Poisson count, of as many counts as the mean is worth by its variance over visitors:
    that many, r² / var, give the mean that much spread. It stays above 0 and is wide where little was counted, where a
    normal interval would be a point at 0. Where nothing was counted, all sessions of a visitor are taken to be alike.
    """
    from scipy.special import chdtri

    if not of.n:
        return StatisticCell(None, support=0)
    value = of.y / of.n
    tail = (1 - CONFIDENCE) / 2
    if not of.y:
        return StatisticCell(value, 0.0, float(chdtri(2, tail)) / 2 * of.nn / of.n**2, support=support)
    spread = of.variance if 0 < of.variance < float("inf") else value / of.n
    counts = value**2 / spread
    low, high = (float(chdtri(2 * k, one)) / (2 * counts) for k, one in ((counts, 1 - tail), (counts + 1, tail)))
    return StatisticCell(value, value * low, value * high, support=support)


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share p of n (which need not be whole): it stays in [0, 1] and is never a point."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))


def quantile(units: int) -> float:
    """Student's t at the upper 2.5 % for so many visitors; 1.96 for many."""
    from scipy.special import stdtrit

    return float(stdtrit(max(units - 1, 1), 0.5 + CONFIDENCE / 2))


def standardised(of: Sequence[Moments]) -> list[StatisticCell]:
    """Rates y / n, minus their mean over the groups, divided by their standard deviation over the groups.

    The deviation is that of a population: rates {0.5, 0.2, 0.3} give {1.34, −1.07, −0.27} (thesis section 6.2). That of
    a sample (n − 1), which Table 6.2 seems to use, would make all values smaller by √((k − 1) / k) of k groups. Mean
    and deviation are over groups, not over sessions: a rare device counts as much as a common one. No values where all
    rates are equal or there is only one group.

    Intervals are of `DRAWS` draws of all rates: each from the Beta distribution of Jeffreys with as many sessions as
    the rate is worth, the groups independent. The derivatives of z (delta method) would do for common groups, but not
    where one has hardly any purchases: it moves all the others.
    """
    rates = np.array([one.y / one.n for one in of])
    if len(rates) < 2 or rates.std() <= 1e-12:
        return [StatisticCell(None) for _ in of]
    worth = np.array([one.effective for one in of])
    drawn = np.random.default_rng(0).beta(rates * worth + 0.5, (1 - rates) * worth + 0.5, (DRAWS, len(rates)))
    ends = np.quantile(_standard(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    z = _standard(rates[None])[0]
    # Near the bound of √(k − 1) all draws can lie on one side of the value.
    return [
        StatisticCell(float(one), min(float(low), float(one)), max(float(high), float(one)))
        for one, low, high in zip(z, *ends, strict=True)
    ]


def _standard(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row."""
    found: NDArray[np.float64] = (rates - rates.mean(axis=1, keepdims=True)) / rates.std(axis=1, keepdims=True)
    return found
