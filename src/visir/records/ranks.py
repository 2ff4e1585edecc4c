"""Ranks of the positives: all that a ranking measure needs, a few numbers per query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ranks:
    """For each query, at which rank each of its positives stands.

    Hits, recalls, precision, MRR, mAP, R-precision, nDCG and first ranks are all functions of these ranks alone, so a
    search need not keep whole rankings to be measured exactly to full depth.

    - `queries`: (n,) query ids
    - `offsets`: (n + 1,) int64 into the flat arrays
    - `ranks`: (m,) int64, ascending within a query, from 1; 0 (sorted last) marks a positive that was not retrieved
      within `depth`
    - `grades`: (m,) float32 > 0, alongside `ranks`
    - `depth`: how deep the rankings go; None means the whole gallery (a 0 can occur only for a positive
      outside the gallery, or behind the candidates of a second stage that finds nothing behind them)
    - `gallery_size`: the number of candidates
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    ranks: NDArray[np.int64]
    grades: NDArray[np.float32]
    depth: int | None
    gallery_size: int

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def positives(self) -> NDArray[np.int64]:
        """(n,) the number of positives of each query, retrieved or not."""
        return np.diff(self.offsets)
