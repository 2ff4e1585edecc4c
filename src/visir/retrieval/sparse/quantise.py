"""Weights as small whole numbers, for engines that support term frequencies only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import SparseEmbeddings

LEVELS = 255
"""The largest whole number by default: 8 bits, as engines store impacts. More levels cost them memory and time."""


@dataclass(frozen=True)
class Quantised:
    """Weights as whole numbers: `whole[j]` ≈ `values[j]` × `scale`."""

    # All documents have one scale, so the order of answers changes by rounding only. A weight that would round to 0
    # becomes 1, so that the same documents match.

    whole: NDArray[np.int32]  # (m,) int32, from 1 to `levels`
    scale: float  # the factor
    levels: int  # the largest whole number

    def __str__(self) -> str:
        return f"weight × {self.scale:.6g}, rounded, at least 1, at most {self.levels}"


def quantise(vectors: SparseEmbeddings, levels: int = LEVELS, scale: float | None = None) -> Quantised:
    """Return the weights as whole numbers."""
    if levels < 1:
        raise EmbeddingError(f"levels must be at least 1, not {levels}.", code="levels-least-not")
    if scale is None:
        scale = levels / float(vectors.values.max()) if len(vectors.values) else 1.0
    whole = np.rint(np.asarray(vectors.values, np.float64) * scale)
    return Quantised(np.clip(whole, 1, levels).astype(np.int32), scale, levels)
