"""One side of a search: vectors in a chosen order, as float32 blocks, from memory or from disk."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import Embeddings
from visir.search import kernels
from visir.threads import Share, piece, spread

Similarity = Literal["cosine", "dot"]
"""How two vectors are scored: "cosine" (each vector is divided by its length first) or "dot" (taken as they are)."""

IN_MEMORY = 2**30
"""Sides of up to this many bytes as float32 are converted once and kept; larger ones block by block, each time."""
BLOCK = 8192
LONGEST = 1.8e19
"""Of vectors that are scored by dot product: of two that are no longer, no product overflows float32, nor any sum that
it is made of (Cauchy–Schwarz)."""


class Side:
    """The vectors at `rows` of `embeddings`, in that order.

    float16 and float64 are converted to float32, and for "cosine" divided by their length (computed in float64), row by
    row, so that a vector's values do not depend on its neighbours. A claim that they are normalised already is not
    relied on: float16 unit vectors are some 1e-3 off. `longest` is the length of the longest (1 for cosine).
    """

    def __init__(self, embeddings: Embeddings, rows: NDArray[np.int64], similarity: Similarity) -> None:
        self.embeddings = embeddings
        self.rows = rows
        self.similarity = similarity
        self._in_order = bool((np.diff(rows) == 1).all())
        self._whole: NDArray[np.float32] | None = None
        if len(rows) * embeddings.dimension * 4 <= IN_MEMORY:
            self._whole = self._convert(0, len(rows))
        self.longest = 1.0 if similarity == "cosine" else self._longest()

    def __len__(self) -> int:
        return len(self.rows)

    def block(self, start: int, stop: int) -> NDArray[np.float32]:
        """(stop - start, d) float32, contiguous."""
        if self._whole is not None:
            return self._whole[start:stop]
        return self._convert(start, stop)

    @property
    def stride(self) -> int:
        """How many vectors to take at a time: all of them if they are in memory."""
        return max(len(self), 1) if self._whole is not None else BLOCK

    def gather(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Vectors that include those at these places of the order, and the row of each place in them."""
        if self._whole is not None:
            return self._whole, places
        return self._prepare(self.rows[places]), np.arange(len(places))

    def _convert(self, start: int, stop: int) -> NDArray[np.float32]:
        if self._in_order:
            first = int(self.rows[start]) if stop > start else 0
            return self._prepare(slice(first, first + stop - start))
        return self._prepare(self.rows[start:stop])

    def _prepare(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        source: Any = self.embeddings.vectors
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        vectors = np.empty((n, self.embeddings.dimension), np.float32)
        lengths = np.empty(n, np.float64)

        def share(part: Share) -> None:
            a, b = piece(n, part)
            some = slice(rows.start + a, rows.start + b) if isinstance(rows, slice) else rows[a:b]
            with np.errstate(over="ignore"):  # infinities are refused below, by name
                vectors[a:b] = source[some]
            if self.similarity == "cosine":
                kernels.lengths(vectors[a:b], lengths[a:b])
                kernels.divide_rows(vectors[a:b], lengths[a:b])

        spread(share)
        if self.similarity == "cosine":
            self._check(rows, lengths == 0, "are zero; they have no cosine", "search by dot product (--similarity dot)")
            self._check(rows, ~np.isfinite(lengths), "are too large for float32", "scale the vectors down")
        return vectors

    def _longest(self) -> float:
        longest = 0.0
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            lengths = _lengths(self.block(start, stop))
            # A product of float32 that overflows on its way may end as NaN, and the pair be lost without a word.
            self._check(self.rows[start:stop], ~(lengths <= LONGEST), "are too large for float32", "scale them down")
            longest = max(longest, float(lengths.max()))
        return longest

    def _check(self, rows: slice | NDArray[np.int64], bad: NDArray[np.bool_], what: str, hint: str) -> None:
        if not bad.any():
            return
        at = np.flatnonzero(bad)
        at = at + rows.start if isinstance(rows, slice) else rows[at]
        named = ", ".join(repr(self.embeddings.ids[int(i)].as_py()) for i in at[:5])
        raise EmbeddingError(
            f"{len(at)} {self.embeddings.modality} vectors by {self.embeddings.encoder.name} {what}: {named}"
            f"{', …' if len(at) > 5 else ''}.",
            hint=f"look at these inputs (empty text? black image?), or {hint}",
        )


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    lengths = np.empty(len(vectors), np.float64)
    kernels.lengths(vectors, lengths)
    return lengths


def check_same_dimension(first: Embeddings, second: Embeddings) -> None:
    """Raise `EmbeddingError` when two sides have vectors of unequal length."""
    if first.dimension != second.dimension:
        raise EmbeddingError(
            f"{first.modality} vectors by {first.encoder.name} have {first.dimension} values, "
            f"{second.modality} vectors by {second.encoder.name} {second.dimension}: they are not of one space.",
            hint="encode both sides with one model (or with heads trained together)",
        )
