"""One side of a search among multi-vectors: items in a chosen order, as float32 blocks, from memory or from disk."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.jit import pays, plain
from visir.records import MultiVectorEmbeddings
from visir.records.columns import rows_of_spans
from visir.retrieval.multi_vector import few, kernels
from visir.retrieval.vectors import IN_MEMORY, LONGEST, lengths_of
from visir.threads import Share, piece, spread

BLOCK = 32_768
"""Vectors in one block (16 MiB of 128 float32), if an item has no more."""
ITEMS = 4096
"""Items in one block: a block of scores has at most 64 MiB."""

Tokens = tuple[NDArray[np.float32], NDArray[np.int64]]
"""(m, d) vectors in float32, contiguous, and (n + 1,) where each of n items starts."""


class TokenSide:
    """The vectors of some rows of multi-vector embeddings, in the order of these rows, as float32."""

    def __init__(self, embeddings: MultiVectorEmbeddings, rows: NDArray[np.int64]) -> None:
        self.embeddings, self.rows = embeddings, rows
        counts = (embeddings.offsets[1:] - embeddings.offsets[:-1])[rows]
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._whole: NDArray[np.float32] | None = None
        if self.offsets[-1] * embeddings.dimension * 4 <= IN_MEMORY:
            self._whole = self._read(0, len(rows))
        self.sums = np.zeros(len(rows), np.float64)
        self.longest = 0.0
        for start, stop in self.blocks():
            vectors, offsets = self.block(start, stop)
            lengths = lengths_of(vectors)
            self._check(start, offsets, ~(lengths <= LONGEST))
            self.longest = max(self.longest, float(lengths.max()))
            self.sums[start:stop] = np.add.reduceat(lengths, offsets[:-1])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def on_disk(self) -> bool:
        """Whether vectors are converted each time they are needed, because all of them together are too many."""
        return self._whole is None

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of blocks of items."""
        yield from cut(self.offsets, BLOCK, ITEMS)

    def block(self, start: int, stop: int) -> Tokens:
        """Return the vectors of the items from `start` to `stop`."""
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        if self._whole is not None:
            return self._whole[self.offsets[start] : self.offsets[stop]], offsets
        return self._read(start, stop), offsets

    def gather(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        """Return vectors that contain those of the items at these positions, where items start, and the item of
        each."""
        # Items in memory are not copied.
        if self._whole is not None:
            return self._whole, self.offsets, places
        distinct, item = np.unique(places, return_inverse=True)
        positions, offsets = rows_of_spans(self.embeddings.offsets, self.rows[distinct])
        return self._converted(self.embeddings.vectors[positions]), offsets, item.astype(np.int64)

    def _read(self, start: int, stop: int) -> NDArray[np.float32]:
        rows = self.rows[start:stop]
        if len(rows) and bool((np.diff(rows) == 1).all()):  # in order: one slice, without a list of positions
            spans = self.embeddings.offsets
            return self._converted(self.embeddings.vectors[int(spans[rows[0]]) : int(spans[rows[-1] + 1])])
        positions, _ = rows_of_spans(self.embeddings.offsets, rows)
        return self._converted(self.embeddings.vectors[positions])

    def _converted(self, vectors: Any) -> NDArray[np.float32]:
        converted: NDArray[np.float32] = plain(np.ascontiguousarray(vectors, np.float32))
        return converted

    def _check(self, start: int, offsets: NDArray[np.int64], bad: NDArray[np.bool_]) -> None:
        if not bad.any():
            return
        items = np.unique(np.searchsorted(offsets, np.flatnonzero(bad), side="right") - 1) + start
        named = ", ".join(repr(self.embeddings.ids[int(self.rows[i])].as_py()) for i in items[:5])
        raise EmbeddingError(
            f"{self.embeddings.modality} multi-vectors by {self.embeddings.encoder.name} are too large for float32: "
            f"{named}{', …' if len(items) > 5 else ''}.",
            hint="look at these inputs, or scale the vectors down",
            code="multi-vectors-too-large-float32",
        )


def cut(offsets: NDArray[np.int64], size: int, items: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive items that together have at most `size` rows; an item with more is alone."""
    start = 0
    while start < len(offsets) - 1:
        stop = int(np.searchsorted(offsets, offsets[start] + size, side="right")) - 1
        stop = max(stop if items is None else min(stop, start + items), start + 1)
        yield start, stop
        start = stop


PAIRS = 65_536
"""Pairs scored at once."""
VECTORS = 2**18
"""Vectors of documents read at once (128 MiB of 128 float32)."""


_LOOPS = (
    kernels.reduce_product, kernels.score_pairs, kernels.mark_near, kernels.count_better, kernels.choose, kernels.align
)  # fmt: skip


def loops_for(numbers: int) -> ModuleType:
    """The compiled loops, or those in NumPy where they are not ready; numbers: multiplications."""
    return kernels if pays(numbers, *_LOOPS) else few


def score_token_places(
    queries: TokenSide, query_places: NDArray[np.int64], documents: TokenSide, document_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    # query_places: (p,) positions among the queries.
    # document_places: (p,) positions among the documents.
    scores = np.empty(len(query_places), np.float32)
    order = np.argsort(document_places, kind="stable") if documents.on_disk else np.arange(len(scores))
    counts = np.diff(documents.offsets)[document_places[order]]
    for start, stop in cut(np.concatenate([[0], np.cumsum(counts)]), VECTORS, PAIRS):
        pairs = order[start:stop]
        pairs = pairs[np.argsort(query_places[pairs], kind="stable")]
        left, right = queries.gather(query_places[pairs]), documents.gather(document_places[pairs])
        out = np.empty(len(pairs), np.float32)
        numbers = int(counts[start:stop].sum()) * documents.embeddings.dimension
        loops = loops_for(numbers * int(queries.offsets[-1]) // max(len(queries), 1))

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            loops.score_pairs(*left[:2], left[2][a:b], *right[:2], right[2][a:b], out[a:b])  # noqa: B023

        spread(share)
        scores[pairs] = out
    return scores
