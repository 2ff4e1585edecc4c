"""Where right candidates stand among the others: counts from which every rule for equal scores gives a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.world import Places

Numbers = NDArray[np.float64]
REORDERED = ("source order", "reverse order", "id", "trec")
"""Rules that put equal scores in another order."""


@dataclass(frozen=True, eq=False)
class Standings:
    """The place of each right candidate of a part."""

    rank: Numbers  # (p,) its rank, equal scores in the order of the rule
    better: Numbers  # (p,) how many candidates have a better score
    equal: Numbers  # (p,) how many candidates have the same score, with itself
    is_ranked: NDArray[np.bool_]  # (p,) whether it is known where it stands; the numbers of others mean nothing
    is_open: NDArray[np.bool_]  # (p,) whether more candidates may have the same score, behind the end of a list
    # (p,) for those that are not ranked: the lowest rank that is possible; inf for one that is no candidate.
    behind: Numbers

    @property
    def has_ties(self) -> bool:
        """Whether another candidate has the score of a right one."""
        return bool((self.equal[self.is_ranked] > 1).any())

    def interval(self, ties: str, row: Places) -> tuple[Numbers, Numbers]:
        """The lowest and the highest rank of each right candidate under a rule for equal scores."""
        # row: (p,) the query of each right candidate.
        lowest, highest = self.behind.copy(), np.full(len(row), np.inf)
        ranked = np.flatnonzero(self.is_ranked)
        low, high = self._counted(ties, ranked, row[ranked])
        if ties not in ("list", "optimistic", "any alike"):
            high = np.where(self.is_open[ranked], np.inf, high)
        if ties in REORDERED:  # the list does not say how many of the same score come before it
            low = np.where(self.is_open[ranked], self._counted("optimistic", ranked, row[ranked])[0], low)
        lowest[ranked], highest[ranked] = low, high
        return lowest, highest

    def _counted(self, ties: str, ranked: Places, row: Places) -> tuple[Numbers, Numbers]:
        rank, better, equal = self.rank[ranked], self.better[ranked], self.equal[ranked]
        if ties in ("list", *REORDERED):
            return rank, rank
        if ties == "any alike":
            return better + 1, better + 1
        nth, right = _among_right(row, better, rank)
        wrong = equal - right
        if ties == "any order":
            return better + nth + 1, better + wrong + nth + 1
        ranks = {
            "optimistic": better + nth + 1,
            "pessimistic": better + wrong + nth + 1,
            "average": better + nth + 1 + wrong / 2,
            "at most": better + equal,
            "average of all": better + (equal + 1) / 2,
            "average down": np.maximum(np.floor(better + (equal + 1) / 2), 1),
        }[ties]
        return ranks, ranks


def _among_right(row: Places, better: Numbers, rank: Numbers) -> tuple[Numbers, Numbers]:
    """(nth, right): which of the right candidates of its query with one score each is, from 0, and how many those
    are."""
    # Right candidates of one query have one score where equally many others are better.
    order = np.lexsort((rank, better, row))
    same = np.concatenate([[False], (np.diff(row[order]) == 0) & (np.diff(better[order]) == 0)])
    starts = np.flatnonzero(~same)
    group = np.cumsum(~same) - 1
    sizes = np.diff(np.concatenate([starts, [len(order)]]))
    nth, right = np.empty(len(order)), np.empty(len(order))
    nth[order] = np.arange(len(order)) - starts[group]
    right[order] = sizes[group]
    return nth, right
