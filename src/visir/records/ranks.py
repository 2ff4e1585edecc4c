"""Ranks of the positives: the few numbers per query that a ranking measure needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted, listed


@dataclass(frozen=True, eq=False)
class Ranks(Displayed):
    """The rank of each positive of each query.

    Hits, recalls, precision, MRR, mAP, R-precision, nDCG and first ranks are functions of these ranks alone. So a
    search need not store whole rankings to be measured exactly over the whole gallery.

    Attributes:
        queries: (n,) query ids.
        offsets: (n + 1,) int64; query i has the slice `offsets[i]:offsets[i + 1]` of the flat arrays.
        ranks: (m,) int64, ascending within a query, from 1; 0 (sorted last) marks a positive that was not retrieved
            within `depth`.
        grades: (m,) float32 above 0, the grade of each positive.
        depth: The length of the rankings; None is the whole gallery. Then a rank is 0 only for a positive outside the
            gallery, or for one that a second stage dropped.
        gallery_size: The number of candidates; None where nobody knows it. Then there is a depth.
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    ranks: NDArray[np.int64]
    grades: NDArray[np.float32]
    depth: int | None
    gallery_size: int | None

    def __post_init__(self) -> None:
        assert self.depth is not None or self.gallery_size is not None, "a ranking without an end"

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        depth = "to the end of the gallery" if self.depth is None else f"{self.depth:,} deep"
        return brief(
            self,
            f"{counted(len(self), 'queries')}, {counted(len(self.ranks), 'positives')}, {depth}, "
            + ("candidates not known" if self.gallery_size is None else counted(self.gallery_size, "candidates")),
            f"queries: {listed(self.queries[:3].to_pylist(), len(self))}",
        )

    @property
    def last(self) -> int:
        """The last rank that the rankings reach."""
        return min(end for end in (self.depth, self.gallery_size) if end is not None)

    @property
    def positives(self) -> NDArray[np.int64]:
        """(n,) the number of positives of each query, retrieved or not."""
        return np.diff(self.offsets)

    def of_grade(self, lowest: float) -> Ranks:
        """Return the ranks of the positives from a grade on; the others count as wrong.

        Args:
            lowest: The lowest grade that counts as right.

        Example:
            >>> grades = np.array([1, 3], np.float32)
            >>> ranks = Ranks(pa.array(["q"]), np.array([0, 2]), np.array([1, 2]), grades, None, 4)
            >>> ranks.of_grade(2).ranks.tolist()
            [2]
        """
        right = self.grades >= lowest
        ends = np.concatenate([[0], np.cumsum(right)])
        return replace(self, offsets=ends[self.offsets], ranks=self.ranks[right], grades=self.grades[right])
