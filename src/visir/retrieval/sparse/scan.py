"""The exact sparse scan: every pair of two sides is scored once, over inverted lists of one block of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.jit import pays
from visir.progress import Progress
from visir.records import SparseEmbeddings
from visir.retrieval.scan import Answers, SearchState
from visir.retrieval.sparse import few
from visir.retrieval.sparse import scan_kernels as kernels
from visir.threads import Share, cores, piece, spread

WIDTH = 4096
"""Candidates in one block: their sums, in float64, stay in a core's nearest cache."""
FREQUENT = 1 / 8
"""Terms that this share of a block's candidates have are added as columns (see `kernels.invert`)."""
TILE = 3 * 2**20
"""Scores in one block, for each core, and at most eight times as many in all, as in the dense scan."""
PAIRS = 8192

Part = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Some rows as (offsets, terms, values)."""


class SparseSide:
    """The vectors of some rows of embeddings, in the order of these rows; read from memory or disk in parts."""

    def __init__(self, embeddings: SparseEmbeddings, rows: NDArray[np.int64]) -> None:
        self.embeddings = embeddings
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, places: slice | NDArray[np.int64]) -> Part:
        """Return a copy of the vectors at these positions."""
        held, rows = self.embeddings, self.rows[places]
        begin = np.asarray(held.offsets)[rows]
        lengths = np.asarray(held.offsets)[rows + 1] - begin
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(begin - offsets[:-1], lengths) + np.arange(offsets[-1])
        return offsets, np.asarray(held.terms[flat]), np.asarray(held.values[flat])


def scan(states: Sequence[SearchState]) -> list[Answers]:
    """Score every query with every candidate; with a second task, whose sides are those of the first the other way
    round, for both at once."""
    # The score of a pair is its dot product summed in float64 in ascending term order, rounded to float32: a function
    # of the two vectors alone. A pair without a common term scores 0 and is ranked like every other, by the tie rule.
    # Memory: one block of scores (12 MiB for each core), one block of vectors of each side with its inverted lists and
    # columns (at most four times the vectors), and the answers.
    rows: SparseSide = states[0].queries
    columns: SparseSide = states[0].candidates
    width = min(WIDTH, len(columns))
    height = max(TILE * min(cores(), 8) // width, 16)
    height = -(-len(rows) // -(-len(rows) // height))  # blocks of equal height, so that no last one is a sliver
    buffer = np.empty(height * width, np.float32)
    with Progress("searching", len(rows) * len(columns), "scores") as advance:
        for state in states:
            state.known[:] = score_word_places(state.queries, state.owners, state.candidates, state.documents)
        for left in range(0, len(columns), width):
            across = columns.part(slice(left, left + width))
            wide = len(across[0]) - 1
            inverted = None
            for top in range(0, len(rows), height):
                down = rows.part(slice(top, top + height))
                tall = len(down[0]) - 1
                tile = buffer[: tall * wide].reshape(tall, wide)
                if pays(tall * len(across[1]) + 4 * tile.size, *_LOOPS):
                    if inverted is None:
                        frequent = max(int(FREQUENT * wide), 1)
                        inverted = kernels.invert(*across, columns.embeddings.dimension, frequent)
                    _look(tile, (down, top), (inverted, left), states)
                else:
                    few.score_block(tile, down, across, columns.embeddings.dimension)
                    for state, scores, asking, others in zip(
                        states, (tile, tile.T), (top, left), (left, top), strict=False
                    ):
                        some = state.query_of[asking : asking + len(scores)]
                        few.scan(
                            scores, some, others, state.depth, state.keys, state.fill, state.floor, *state.positives
                        )
                advance(tile.size)
        return [_answers(state) for state in states]


_LOOPS = (kernels.invert, kernels.scan_rows, kernels.scan_columns, kernels.finish)


def score_word_places(
    queries: SparseSide, query_places: NDArray[np.int64], documents: SparseSide, document_places: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the (p,) float32 scores of pairs."""
    scores = np.empty(len(query_places), np.float32)
    for start in range(0, len(scores), PAIRS):
        left, right = (
            queries.part(query_places[start : start + PAIRS]),
            documents.part(document_places[start : start + PAIRS]),
        )
        out = scores[start : start + PAIRS]
        place = np.arange(len(out))
        loops = kernels if pays(len(left[1]) + len(right[1]), kernels.score_pairs) else few

        def share(part: Share) -> None:
            a, b = piece(len(out), part)  # noqa: B023 (called before the next turn)
            loops.score_pairs(left, place[a:b], right, place[a:b], out[a:b])  # noqa: B023

        spread(share, len(out))
    return scores


def _look(tile: NDArray[np.float32], rows: tuple[Part, int], columns: tuple[Any, int], states: Any) -> None:
    """Fill a block with scores; every core takes its share, first of the rows, then of the columns."""
    (down, top), (inverted, left) = rows, columns

    def look(state: SearchState, kernel: Any, n: int, part: Share, first: int, other: int, *given: Any) -> None:
        query_of_row = state.query_of[first : first + n]
        kernel(
            tile, *piece(n, part), *given, query_of_row, other, state.depth, state.keys, state.fill, state.floor,
            *state.positives,
        )  # fmt: skip

    tall, wide = tile.shape
    spread(lambda part: look(states[0], kernels.scan_rows, tall, part, top, left, down, inverted), tall)
    if len(states) > 1:
        spread(lambda part: look(states[1], kernels.scan_columns, wide, part, left, top), wide)


def _answers(state: SearchState) -> Answers:
    indices = np.empty((len(state), state.depth), np.int32)
    scores = np.empty((len(state), state.depth), np.float32)
    loops = kernels if pays(state.keys.size, kernels.finish) else few
    spread(lambda part: loops.finish(*piece(len(state), part), state.depth, state.keys, indices, scores), len(state))
    return indices, scores


def check_same_vocabulary(first: SparseEmbeddings, second: SparseEmbeddings) -> None:
    """Check that two sides have the same vocabulary."""
    left, right = first.vocabulary, second.vocabulary
    if left.fingerprint != right.fingerprint:
        raise EmbeddingError(
            f"sparse {first.modality} embeddings by {first.encoder.name} are over the vocabulary {left.name!r} "
            f"({len(left):,} terms), {second.modality} embeddings by {second.encoder.name} over {right.name!r} "
            f"({len(right):,} terms): they do not weigh the same words.",
            hint="encode both sides with one sparse encoder",
            code="not-weigh-same-words",
        )
