"""Simulations of `calibration.py`: what a test or an interval promises, and how often it keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = tuple[float, float]
LEVEL = 0.05
TOLERATED_ERRORS = 3.0
"""How many Monte Carlo standard errors a rate may lie outside its band."""


@dataclass(frozen=True)
class Promise:
    """What is promised of a rate.

    Args:
        words: In percent: "≤ 5"; "" where nothing is promised, and the band says what is documented.
        low: The lower end of the band, in percent.
        high: The upper end.
    """

    words: str
    low: float
    high: float


SIZE = Promise("≤ 5", 0, 6)
"""False positives, families with a false positive, false discoveries."""
COVERAGE = Promise("95", 94, 100)
"""Intervals that hold the truth."""


def documented(low: float, high: float) -> Promise:
    """A rate that is known to miss what a reader expects; the docs say so."""
    return Promise("", low, high)


@dataclass(frozen=True)
class Simulation:
    """A simulated world, and what is measured in it.

    Args:
        section: What is simulated: "compare, by image".
        case: The world in words.
        repeat: One repetition: name of a rate → 1 or 0 (or a share); NaN where there is nothing to count. Names that
            begin with "interval" are promised coverage, the others size.
        documented: Name of a rate → another promise.
        share: Of the repetitions: less than 1 for costly worlds.
    """

    section: str
    case: str
    repeat: Callable[[np.random.Generator], Mapping[str, float]]
    documented: Mapping[str, Promise] = field(default_factory=dict)
    share: float = 1.0

    @property
    def name(self) -> str:
        """The section and the case."""
        return f"{self.section}: {self.case}"

    def promise(self, rate: str) -> Promise:
        """What is promised of a rate."""
        return self.documented.get(rate, COVERAGE if rate.startswith("interval") else SIZE)

    def run(self, repetitions: int, seed: int) -> dict[str, Rate]:
        """Repeat the world.

        Args:
            repetitions: How often, before `share`; twice at least.
            seed: Of the draws.

        Returns:
            Name → rate.
        """
        rng = np.random.default_rng([seed, crc32(self.name.encode())])
        outcomes: dict[str, list[float]] = {}
        for _ in range(max(2, round(repetitions * self.share))):
            for rate, value in self.repeat(rng).items():
                outcomes.setdefault(rate, []).append(value)
        return {rate: _rate(self.promise(rate), np.array(values, np.float64)) for rate, values in outcomes.items()}


@dataclass(frozen=True)
class Rate:
    """A measured rate, in percent.

    Args:
        promise: What is promised.
        low: The lower end of the band.
        high: The upper end.
        rate: The rate; NaN where there was nothing to count.
        error: Its Monte Carlo standard error.
        tolerated: The larger of that and the error of a rate at the edge of the band: 0 of 100 is not certain.
        repetitions: How many repetitions counted.
    """

    promise: str
    low: float
    high: float
    rate: float
    error: float
    tolerated: float
    repetitions: int

    @property
    def holds(self) -> bool:
        """Whether the rate is in its band, up to Monte Carlo error."""
        slack = TOLERATED_ERRORS * self.tolerated
        return isnan(self.rate) or self.low - slack <= self.rate <= self.high + slack

    @property
    def cell(self) -> str:
        """In bold outside its band; in italics, with the band, where nothing is promised."""
        if isnan(self.rate):
            return "none"
        words = f"{self.rate:.1f} ± {self.error:.1f}"
        if not self.holds:
            return f"**{words}**"
        return words if self.promise else f"*{words}* ({self.low:g}–{self.high:g})"


def _rate(promise: Promise, values: Floats) -> Rate:
    counted = values[~np.isnan(values)]
    if not len(counted):
        return Rate(promise.words, promise.low, promise.high, nan, nan, nan, 0)
    at_edges = [np.sqrt(edge * (100 - edge)) / 100 for edge in (promise.low, promise.high)]
    root, spread = np.sqrt(len(counted)), float(counted.std())
    return Rate(
        promise.words,
        promise.low,
        promise.high,
        100 * float(counted.mean()),
        100 * spread / root,
        100 * max(spread, *at_edges) / root,
        len(counted),
    )


def rejects(p: float) -> float:
    """1 where p is below 5 %; 0 otherwise, also where there is no p."""
    return float(p < LEVEL)


def covers(interval: Interval, truth: float) -> float:
    """1 where an interval holds the truth, 0 where not, NaN where there is no interval."""
    low, high = interval
    slack = 1e-9 * max(1.0, abs(truth))
    return nan if isnan(low) else float(low - slack <= truth <= high + slack)
