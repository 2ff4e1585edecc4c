"""One side of a search: vectors in a chosen order, as float32 blocks, from memory or from disk."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import visir.retrieval.few as few
import visir.retrieval.kernels as kernels
from visir.errors import EmbeddingError
from visir.files import release
from visir.jit import pays
from visir.records import Embeddings, MultiVectorEmbeddings
from visir.threads import Share, piece, spread

Similarity = Literal["cosine", "dot", "maxsim"]
"""How a pair is scored: "cosine" (each vector is divided by its length first), "dot" (vectors as they are), or "maxsim"
(several vectors for each item: for each of the query's the greatest dot product with one of the document's, summed)."""

IN_MEMORY = 2**30
"""Sides of up to this many bytes as float32 stay in memory; larger ones are converted block by block each time."""
BLOCK = 8192
LONGEST = 1.8e19
"""The greatest length of vectors for a dot product. The dot product of two such vectors, and every partial sum of it,
fits into float32 (Cauchy–Schwarz)."""


class Side:
    """The vectors of some rows of embeddings, in the order of these rows, as float32."""

    # For "cosine" each vector is divided by its length (computed in float64), row by row, so that its values do not
    # depend on its neighbours. This is done for vectors that are said to be normalised too, because the length of
    # float16 vectors is wrong by about 1e-3.

    stays = False
    """Whether what is read of a mapped file stays mapped; else its pages are given back, and faulted in again."""

    def __init__(
        self, embeddings: Embeddings, rows: NDArray[np.int64], similarity: Similarity, *, stays: bool = False
    ) -> None:
        self.embeddings, self.stays = embeddings, stays
        self.rows = rows
        self.similarity = similarity
        self._in_order = bool((np.diff(rows) == 1).all())
        self._whole: NDArray[np.float32] | None = None
        self.on_devices: dict[str, list[Any]] = {}
        if len(rows) * embeddings.dimension * 4 <= IN_MEMORY:
            self._whole = self._convert(0, len(rows))
        self.longest = 1.0 if similarity == "cosine" else self._longest()

    @classmethod
    def of_one(cls, query: Embeddings, similarity: Similarity) -> Side:
        """Return the side of one vector, without what only many need."""
        if query.vectors.dtype not in (np.float32, np.float16):
            return cls(query, np.arange(1), similarity)
        vectors = np.array(query.vectors, np.float32, order="C")
        lengths = lengths_of(vectors)
        length = float(lengths[0])
        if not (0 < length < np.inf if similarity == "cosine" else length <= LONGEST):
            return cls(query, np.arange(1), similarity)  # which names it
        if similarity == "cosine":
            loops_for(vectors.size, "divide_rows").divide_rows(vectors, lengths)
        side = cls.__new__(cls)
        side.embeddings, side.rows, side.similarity, side.on_devices = query, np.arange(1), similarity, {}
        side._in_order, side._whole, side.longest = True, vectors, 1.0 if similarity == "cosine" else length
        return side

    def __len__(self) -> int:
        return len(self.rows)

    def block(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the (stop - start, d) vectors from `start` to `stop` in float32, contiguous."""
        if self._whole is not None:
            return self._whole[start:stop]
        return self._convert(start, stop)

    @property
    def whole(self) -> NDArray[np.float32] | None:
        """All vectors, where they are in memory."""
        return self._whole

    @property
    def stride(self) -> int:
        """The number of vectors to read at once: all if they are in memory."""
        return max(len(self), 1) if self._whole is not None else BLOCK

    def gather(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return a matrix that contains the vectors at these positions, and the row of each position in it."""
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
        loops = loops_for(vectors.size, *(("lengths", "divide_rows") if self.similarity == "cosine" else ()))

        def share(part: Share) -> None:
            a, b = piece(n, part)
            selected = slice(rows.start + a, rows.start + b) if isinstance(rows, slice) else rows[a:b]
            with np.errstate(over="ignore"):  # infinities are refused below, by name
                vectors[a:b] = source[selected]
            if self.similarity == "cosine":
                loops.lengths(vectors[a:b], lengths[a:b])
                loops.divide_rows(vectors[a:b], lengths[a:b])

        if loops is few or n == 1:
            share((0.0, 1.0))  # the other threads may be busy with compiling
        else:
            spread(share, n)
        if not self.stays:
            release(source)
        if self.similarity == "cosine":
            self._check(rows, lengths == 0, "are zero; they have no cosine", "search by dot product (--similarity dot)")
            self._check(rows, ~np.isfinite(lengths), "are too large for float32", "scale the vectors down")
        return vectors

    def _longest(self) -> float:
        longest = 0.0
        for start in range(0, len(self), BLOCK):
            stop = min(start + BLOCK, len(self))
            lengths = lengths_of(self.block(start, stop))
            # A product of float32 that overflows may become NaN, and the pair would be lost silently.
            self._check(self.rows[start:stop], ~(lengths <= LONGEST), "are too large for float32", "scale them down")
            longest = max(longest, float(lengths.max()))
        return longest

    def _check(self, rows: slice | NDArray[np.int64], bad: NDArray[np.bool_], fault: str, hint: str) -> None:
        if not bad.any():
            return
        indices = np.flatnonzero(bad)
        indices = indices + rows.start if isinstance(rows, slice) else rows[indices]
        named = ", ".join(repr(self.embeddings.ids[int(i)].as_py()) for i in indices[:5])
        raise EmbeddingError(
            f"{len(indices)} {self.embeddings.modality} vectors by {self.embeddings.encoder.name} {fault}: {named}"
            f"{', …' if len(indices) > 5 else ''}.",
            hint=f"look at these inputs (empty text? black image?), or {hint}",
            code="vectors-not-usable",
        )


def lengths_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n,) the Euclidean lengths of float32 rows."""
    lengths = np.empty(len(vectors), np.float64)
    loops_for(vectors.size, "lengths").lengths(vectors, lengths)
    return lengths


def loops_for(numbers: int, *names: str) -> ModuleType:
    """The compiled loops, or those in NumPy where there is little to do and the ones of these names are not ready."""
    return kernels if pays(numbers, *(getattr(kernels, name) for name in names)) else few


def check_same_dimension(first: Embeddings | MultiVectorEmbeddings, second: Embeddings | MultiVectorEmbeddings) -> None:
    """Check that the vectors of two sides have the same dimension."""
    if first.dimension != second.dimension:
        raise EmbeddingError(
            f"{first.modality} vectors by {first.encoder.name} have {first.dimension} values, "
            f"{second.modality} vectors by {second.encoder.name} {second.dimension}: they are not of one space.",
            hint="encode both sides with one model (or with heads trained together)",
            code="not-one-space",
        )


def score_pairs(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right: NDArray[np.float32],
    right_rows: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """(p,) float32 scores of pairs of a row of `left` and a row of `right`, which are vectors as they are compared."""
    loops_for(len(out) * left.shape[1], "score_pairs").score_pairs(left, left_rows, right, right_rows, out)


_PAIRS = 65_536


def score_places(
    left: Side, left_places: NDArray[np.int64], right: Side, right_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # left_places: (p,) positions on the left side.
    # right_places: (p,) positions on the right side.
    scores = np.empty(len(left_places), np.float32)
    for start in range(0, len(scores), _PAIRS):
        stop = min(start + _PAIRS, len(scores))
        near, far = left.gather(left_places[start:stop]), right.gather(right_places[start:stop])
        out = scores[start:stop]

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            score_pairs(near[0], near[1][a:b], far[0], far[1][a:b], out[a:b])  # noqa: B023

        spread(share, len(out))
    return scores
