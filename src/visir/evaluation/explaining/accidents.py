"""How easily digits fit by accident, and what chance reaches.

A reading that is not the true one gives, for each printed value, some other number. How likely is it that this number
rounds to the printed digits? Recalls of rising cutoffs are counts of queries: given R@1, R@5 adds some of the queries
that were missed. So the chance of a fit is a product of binomial probabilities, each at most that of its most likely
count: few queries, few digits, or values near 0 or 100 fit easily.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from visir.evaluation.explaining.known_ranks import KnownRanks
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, decimals_of

MOST_ACCIDENTS = 0.05
"""Up to this expected number of accidental fits, a reading is named."""
_TAIL = 1e-4
_SPREAD = 0.03
"""Relative spread of a value that is no recall, between readings near one another."""


def chance_of_fit(values: Mapping[str, float], queries: int, decimals: int, scale: float = 100.0) -> float:
    """The highest chance that another reading gives all printed digits of one task."""
    chance, before = 1.0, 0.0
    recalls = sorted((int(match[1]), value) for label, value in values.items() if (match := LABEL.fullmatch(label)))
    unit = 10.0**-decimals
    for _, value in recalls:
        share = min(max(value / scale, 0.0), 1.0)
        left = max(1 - before, 0.0)
        rest = min(max((share - before) / left, 0.0), 1.0) if left > 0 else 0.0
        variance = queries * left * rest * (1 - rest)
        chance *= _at_most(max(1.0, queries * unit / scale), variance)
        before = max(before, share)
    for label, value in values.items():
        if LABEL.fullmatch(label) or (label == "rsum" and len(recalls) == len(RSUM_CUTOFFS)):
            continue
        step = 10.0 ** -decimals_of(label, decimals)
        chance *= min(1.0, step / (2.5 * max(_SPREAD * abs(value), step)))
    return chance


def _at_most(window: float, variance: float) -> float:
    """The chance of a window of counts around the most likely one."""
    return min(1.0, window / math.sqrt(2 * math.pi * (variance + 0.16)))


def is_near(ours: float, published: float, queries: int, unit: float, scale: float = 100.0) -> bool:
    """Whether a value is as near the printed one as another sample of queries would give: three standard errors."""
    share = min(max(published / scale, 0.0), 1.0)
    spread = scale * math.sqrt(max(share * (1 - share), 1 / queries) / queries)
    return abs(ours - published) <= 3 * spread + unit


def interval_of_chance(ranks: KnownRanks, k: int, samples: int) -> tuple[float, float]:
    """Between which values, in percent, hit@k of random rankings lies, but for one case in 5,000."""
    gallery = max(ranks.sizes)
    expected = float(ranks.weights @ (1 - (1 - min(k / gallery, 1.0)) ** ranks.positives))
    least = min(k / gallery, 1.0)
    return 100 * _quantile(_TAIL, samples, least) / samples, 100 * _quantile(1 - _TAIL, samples, expected) / samples


def _quantile(level: float, samples: int, share: float) -> int:
    """The least count whose binomial distribution function reaches a level."""
    if share >= 1:
        return samples
    mass = math.exp(samples * math.log1p(-share))
    if mass == 0:  # far from 0: the normal distribution will do
        spread = math.sqrt(samples * share * (1 - share))
        return round(samples * share + (4 if level > 0.5 else -4) * spread)
    count, total = 0, mass
    while total < level and count < samples:
        mass *= (samples - count) / (count + 1) * share / (1 - share)
        count, total = count + 1, total + mass
    return count
