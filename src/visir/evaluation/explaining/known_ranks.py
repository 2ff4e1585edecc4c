"""The ranks of right candidates under a reading, as far as the lists reach: a lowest and a highest rank each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.lists import RankedLists
from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.score_matrix import ScoreMatrix
from visir.evaluation.explaining.world import Places

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
