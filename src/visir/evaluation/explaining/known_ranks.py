"""The ranks of right candidates under a reading, as far as the lists reach: a lowest and a highest rank each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.lists import RankedLists
from visir.evaluation.explaining.material import Reading
from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.score_matrix import ScoreMatrix
from visir.evaluation.explaining.world import Places
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, decimals_of

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """The ranks of the right candidates of each query."""

    # (p,) the lowest possible rank of each right candidate, ascending within a query; inf where it cannot be found.
    lowest: Numbers
    highest: Numbers  # (p,) the highest possible rank, likewise; inf where the lists end before it
    offsets: Places  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`
    weights: Numbers  # (n,) the weight of each query in the mean
    sizes: tuple[int, ...]  # the number of candidates of each fold
    has_ties: bool  # whether another candidate has the score of a right one

    @property
    def positives(self) -> Places:
        """(n,) the number of right candidates of each query."""
        return np.diff(self.offsets)


def known_ranks(scored: RankedLists | ScoreMatrix, part: Part, reading: Reading, ties: str) -> KnownRanks:
    """Rank the right candidates of a part."""
    row, _ = part.pairs
    ties = "any alike" if reading["positives"] == "any alike" else ties
    standings = scored.standings(part, ties)
    lowest, highest = standings.interval(ties, row)
    if part.copies_before is not None:
        lowest, highest = lowest + part.copies_before[row], highest + part.copies_before[row]
    depth = reading.value("depth")
    if isinstance(depth, int):
        lowest[lowest > depth], highest[highest > depth] = np.inf, np.inf
    row = row if part.groups is None else part.groups[row]
    is_known = bool((lowest == highest).all())
    lowest = lowest[np.lexsort((lowest, row))]
    highest = lowest if is_known else highest[np.lexsort((highest, row))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(part.weights)))]).astype(np.int64)
    return KnownRanks(lowest, highest, offsets, part.weights, part.sizes, standings.has_ties)


# How easily digits fit by accident, and what chance reaches.

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
