"""The meanings of R@k, each a function of the ranks of the right candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The ranks of the right candidates, query by query."""

    ranks: Numbers  # (p,) ascending within a query; inf for one that is not found
    offsets: NDArray[np.int64]  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`

    @property
    def positives(self) -> Numbers:
        """(n,) the number of right candidates."""
        return np.diff(self.offsets).astype(np.float64)

    @property
    def nth(self) -> Numbers:
        """(p,) which right candidate of its query each is, from 0."""
        starts = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        nth: Numbers = np.arange(len(self.ranks), dtype=np.float64) - starts
        return nth

    def total(self, values: Numbers | NDArray[np.bool_]) -> Numbers:
        """(n,) the sum of a value of each right candidate over its query."""
        sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        total: Numbers = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return total

    def hits(self, k: int) -> Numbers:
        """(n,) the number of right candidates in the first k."""
        return self.total(self.ranks <= k)

    @property
    def best(self) -> Numbers:
        """(n,) the best rank; inf for a query that finds nothing."""
        padded = np.append(self.ranks, np.inf)
        has_any = np.diff(self.offsets) > 0
        best: Numbers = np.where(has_any, padded[self.offsets[:-1]], np.inf)
        return best


Recall = Callable[[Ranked, int], Numbers]


def _share(numerator: Numbers, denominator: Numbers | float) -> Numbers:
    denominator = np.broadcast_to(np.asarray(denominator, np.float64), numerator.shape)
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def _five_capped(ranked: Ranked, k: int) -> Numbers:
    """The brittleness paper's own code for image-to-text takes five captions for granted, so that an image with six can
    score 1.2. Where every image has five, it is capped_recall."""
    hits = ranked.hits(k)
    return np.where(ranked.positives > 1, hits / min(k, 5), np.minimum(hits, 1))


def _ndcg(ranked: Ranked, k: int) -> Numbers:
    inside = ranked.ranks <= k
    gains = np.where(inside, 1 / np.log2(np.where(inside, ranked.ranks, 1) + 1), 0)
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(1, k + 1) + 1))])
    return _share(ranked.total(gains), ideal[np.minimum(ranked.positives, k).astype(int)])


def _map(ranked: Ranked, k: int) -> Numbers:
    inside = ranked.ranks <= k
    precision = np.where(inside, (ranked.nth + 1) / np.where(inside, ranked.ranks, 1), 0)
    return _share(ranked.total(precision), ranked.positives)


RECALLS: Mapping[str, Recall] = {
    "hit": lambda ranked, k: (ranked.best <= k).astype(np.float64),
    "recall": lambda ranked, k: _share(ranked.hits(k), ranked.positives),
    "capped_recall": lambda ranked, k: _share(ranked.hits(k), np.minimum(k, ranked.positives)),
    "five_capped_recall": _five_capped,
    "all": lambda ranked, k: ((ranked.hits(k) == ranked.positives) & (ranked.positives > 0)).astype(np.float64),
    # Every pair weighs the same: a query weighs as its number of pairs.
    "pairs": lambda ranked, k: ranked.hits(k) * len(ranked.positives) / max(float(ranked.positives.sum()), 1.0),
    "precision": lambda ranked, k: ranked.hits(k) / k,
    "separate": lambda ranked, k: _share(ranked.total(ranked.ranks - ranked.nth <= k), ranked.positives),
    "mrr": lambda ranked, k: np.where(ranked.best <= k, 1 / ranked.best, 0.0),
    "ndcg": _ndcg,
    "map": _map,
}
"""By name of a choice of the axis "recall": (ranks, k) → (n,) the value of each query."""


def recall_values(ranks: Numbers, offsets: NDArray[np.int64], recall: str, k: int) -> Numbers:
    """The values of R@k under one meaning."""
    # ranks: (p,) the ranks of the right candidates from 1, ascending within a query; inf for one that is not found.
    # Returns: (n,) one value per query.
    with np.errstate(divide="ignore", invalid="ignore"):
        return RECALLS[recall](Ranked(ranks, offsets), k)
