"""The scan: block after block of the score matrix, each looked at once and forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.progress import Progress
from visir.records import Ties
from visir.search import kernels
from visir.search.pairs import score_places
from visir.search.vectors import BLOCK, Side
from visir.threads import Share, cores, one_blas_thread, piece, spread

WIDTH = 8192
CROWD = 512
"""Queries at once where scores are of double precision: a block of 32 MiB."""
TILE = 3 * 2**20
"""Scores in one block, for each core (12 MiB of float32), and at most eight times as many in all.

Taller blocks save work on the columns, which see fewer of them; lower ones are still in the cache when they are read.
"""
TIES: dict[Ties, int] = {"id": 0, "pessimistic": kernels.PESSIMISTIC, "optimistic": 2}


class SearchState:
    """The queries of one task, their positives, and what has been found so far.

    - `query_of`: (rows of the query side,) which query each row is, -1 if none; `row_of`: (queries,) the reverse
    - `offsets`, `documents`: the positives of each query (places on the candidate side, ascending); `known`: their
      scores; `better`: how many candidates stand before each
    - `keys`: (queries, a little more than depth) the best candidates so far, by approximate score (see `kernels`),
      `fill` of them; `floor`: the depth-th best approximate score; `crowded`: whether near-equal scores did not fit
    """

    def __init__(
        self, query_of: NDArray[np.int64], offsets: NDArray[np.int64], documents: NDArray[np.int64], depth: int
    ) -> None:
        queries = len(offsets) - 1
        self.query_of, self.offsets, self.documents, self.depth = query_of, offsets, documents, depth
        self.row_of = np.empty(queries, np.int64)
        self.row_of[query_of[query_of >= 0]] = np.flatnonzero(query_of >= 0)
        self.keys = np.empty((queries, depth + 16 + depth // 8), np.uint64)
        self.fill = np.zeros(queries, np.int64)
        self.floor = np.full(queries, -np.inf, np.float32)
        self.crowded = np.zeros(queries, np.bool_)
        self.better = np.zeros(len(documents), np.int64)
        self.known = np.empty(len(documents), np.float32)

    def __len__(self) -> int:
        return len(self.row_of)

    def look(
        self,
        kernel: Callable[..., Any],
        tile: NDArray[np.float32],
        part: tuple[int, int],
        queries: NDArray[np.float32],
        first_query: int,
        candidates: NDArray[np.float32],
        first_candidate: int,
        slacks: Slacks,
        ties: Ties,
    ) -> int:
        """Let a kernel scan a part of a block of approximate scores; what the near-equal ones have cost."""
        query_of_row = self.query_of[first_query : first_query + len(queries)]
        looked: int = kernel(
            tile, *part, queries, query_of_row, *slacks, candidates, first_candidate, self.depth, self.keys, self.fill,
            self.floor, self.crowded, self.offsets, self.documents, self.known, self.better, TIES[ties],
        )  # fmt: skip
        return looked


Slacks = tuple[np.float32, np.float32]
"""How far any block's scores may be from the exact ones, and those of this block."""
Answers = tuple[NDArray[np.int32], NDArray[np.float32]]
"""(queries, depth) candidate places and their scores, best first."""


def scan(rows: Side, columns: Side, forward: SearchState, backward: SearchState | None, ties: Ties) -> list[Answers]:
    """Score every row of one side with every row of the other, once, filling `forward` (rows ask, columns answer) and
    `backward` (columns ask, rows answer); the answers of each.

    Memory: one block of scores, one block of vectors of each side that is not held in memory, and the answers.
    """
    lengths, dimension = rows.longest * columns.longest, rows.embeddings.dimension
    single, double = np.float32(_slack(dimension, lengths)), np.float32(_slack_of_double(dimension, lengths))
    width = min(WIDTH, len(columns))
    height = max(TILE * min(cores(), 8) // width, 16)
    height = -(-len(rows) // -(-len(rows) // height))  # blocks of equal height, so that no last one is a sliver
    buffer = np.empty(height * width, np.float32)
    both = [(forward, rows, columns)] + ([] if backward is None else [(backward, columns, rows)])
    precise = False
    with Progress("searching", len(rows) * len(columns), "scores") as advance, one_blas_thread():
        for state, queries, candidates in both:
            state.known[:] = score_places(
                queries, np.repeat(state.row_of, np.diff(state.offsets)), candidates, state.documents
            )
        for left in range(0, len(columns), width):
            across = columns.block(left, min(left + width, len(columns)))
            for top in range(0, len(rows), height):
                down = rows.block(top, min(top + height, len(rows)))
                tile = buffer[: len(down) * len(across)].reshape(len(down), len(across))
                slacks = (single, double if precise else single)
                looked = _look(tile, down, top, across, left, forward, backward, slacks, ties, precise)
                # Bunched scores (a model that has hardly learnt) and many positives: products in double precision cost
                # twice as much, and leave next to nothing that is near.
                precise = precise or looked > tile.size * dimension // 4
                advance(tile.size)
        return [_answers(state, queries, candidates) for state, queries, candidates in both]


def _look(
    tile: NDArray[np.float32],
    down: NDArray[np.float32],
    top: int,
    across: NDArray[np.float32],
    left: int,
    forward: SearchState,
    backward: SearchState | None,
    slacks: Slacks,
    ties: Ties,
    precise: bool,
) -> int:
    """Fill a block with approximate scores; every core scans its share, first of the rows, then of the columns."""
    looked: list[int] = []
    right = across.astype(np.float64).T if precise else across.T

    def across_rows(part: Share) -> None:
        start, stop = piece(len(down), part)
        if precise:
            for a in range(start, stop, CROWD):
                b = min(a + CROWD, stop)
                tile[a:b] = down[a:b].astype(np.float64) @ right
        else:
            np.matmul(down[start:stop], right, out=tile[start:stop])
        looked.append(forward.look(kernels.scan_rows, tile, (start, stop), down, top, across, left, slacks, ties))

    def down_columns(part: Share) -> None:
        if backward is not None:
            share = piece(len(across), part)
            looked.append(backward.look(kernels.scan_columns, tile, share, across, left, down, top, slacks, ties))

    spread(across_rows)
    spread(down_columns)
    return sum(looked)


def _answers(state: SearchState, queries: Side, candidates: Side) -> Answers:
    """Score the kept candidates exactly, and put them in order."""
    for first in range(0, len(candidates), step := candidates.stride):
        block = candidates.block(first, min(first + step, len(candidates)))
        for start in range(0, len(state), queries.stride):
            vectors, places = queries.gather(state.row_of[start : start + queries.stride])

            def share(part: Share) -> None:
                a, b = piece(len(places), part)  # noqa: B023 (called before the next turn)
                kernels.rescore(start + a, start + b, state.keys, state.fill, vectors, places[a:b], block, first)  # noqa: B023

            spread(share)
    _answer_crowded(state, queries, candidates)
    indices = np.empty((len(state), state.depth), np.int32)
    scores = np.empty((len(state), state.depth), np.float32)
    spread(lambda part: kernels.finish(*piece(len(state), part), state.depth, state.keys, state.fill, indices, scores))
    return indices, scores


def _answer_crowded(state: SearchState, queries: Side, candidates: Side) -> None:
    """Queries with more near-equal scores than could be kept (copies by the hundred, a collapsed encoder): once more,
    with products in double precision, which leave next to nothing undecided.
    """
    crowded = np.flatnonzero(state.crowded)
    state.fill[crowded] = 0
    slack = _slack_of_double(queries.embeddings.dimension, queries.longest * candidates.longest)
    for first in range(0, len(candidates) if len(crowded) else 0, BLOCK):
        block = candidates.block(first, min(first + BLOCK, len(candidates)))
        exact = block.astype(np.float64).T
        for start in range(0, len(crowded), CROWD):
            some = crowded[start : start + CROWD]
            vectors, places = queries.gather(state.row_of[some])

            def share(part: Share) -> None:
                a, b = piece(len(some), part)  # noqa: B023 (called before the next turn)
                own = vectors[places[a:b]].astype(np.float64)  # noqa: B023
                scores = own @ exact  # noqa: B023
                for i in range(b - a):
                    kernels.take_exactly(
                        some[a + i], state.depth, state.keys, state.fill, scores[i], slack, own[i], block, first  # noqa: B023
                    )  # fmt: skip

            spread(share)


def _slack(dimension: int, lengths: float, u: float = 2.0**-24) -> float:
    """How far a matrix product may be from the score: d u / (1 - d u) times the product of the lengths.

    The bound holds for any order of summation, with or without fused operations (Higham, Accuracy and Stability of
    Numerical Algorithms, section 3.1); u is 2^-24 for float32, 2^-53 for float64. The 16 more cover the rounding of the
    score itself and of score ± slack; the last term, underflow.
    """
    unit = (dimension + 16) * u
    return unit / (1.0 - unit) * lengths * 1.01 + dimension * 2.0**-125


def _slack_of_double(dimension: int, lengths: float) -> float:
    """The same for products in double precision, rounded to float32 or not: the score itself is."""
    return _slack(dimension, lengths, 2.0**-53) + 2.0**-23 * lengths
