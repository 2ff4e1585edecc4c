"""The scan: block after block of the score matrix, each looked at once and forgotten."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.progress import Progress
from visir.records import Ties
from visir.search import kernels
from visir.search.vectors import Side

WIDTH = 8192
TILE = 8 * 2**20
"""Scores in one block (32 MiB of float32): the last-level cache of a server holds it."""
PAIRS = 16_384
_TIES: dict[Ties, int] = {"id": 0, "pessimistic": kernels.PESSIMISTIC, "optimistic": 2}


class Asked:
    """The queries of one direction, their positives, and what has been found so far.

    - `query_of`: (rows of the query side,) which query each row is, -1 if none
    - `offsets`, `documents`: the positives of each query (places on the candidate side, ascending)
    - `keys`: (queries, depth) the best candidates so far (see `kernels`); `better`: how many stand before each positive
    """

    def __init__(
        self, query_of: NDArray[np.int64], offsets: NDArray[np.int64], documents: NDArray[np.int64], depth: int
    ) -> None:
        queries = len(offsets) - 1
        self.query_of, self.offsets, self.documents = query_of, offsets, documents
        self.row_of = np.empty(queries, np.int64)
        self.row_of[query_of[query_of >= 0]] = np.flatnonzero(query_of >= 0)
        self.keys = np.empty((queries, depth), np.uint64)
        self.fill = np.zeros(queries, np.int64)
        self.floor = np.full(queries, -np.inf, np.float32)
        self.better = np.zeros(len(documents), np.int64)
        self.known = np.empty(len(documents), np.float32)

    def score_positives(self, queries: Side, candidates: Side) -> None:
        """Fill `known`, the scores of the positives."""
        rows = np.repeat(self.row_of, np.diff(self.offsets))
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            left, right = queries.gather(rows[part]), candidates.gather(self.documents[part])
            kernels.score_pairs(*left, *right, self.known[part])


def scan(rows: Side, columns: Side, forward: Asked, backward: Asked | None, ties: Ties) -> None:
    """Score every row of one side with every row of the other, once, filling `forward` (rows ask, columns answer) and
    `backward` (columns ask, rows answer).

    Memory: one block of scores, one block of vectors of each side that is not held in memory, and the answers.
    """
    forward.score_positives(rows, columns)
    if backward is not None:
        backward.score_positives(columns, rows)
    slack = np.float32(_slack(rows.embeddings.dimension, rows.longest * columns.longest))
    width = min(WIDTH, len(columns))
    height = min(max(TILE // width, 64), len(rows))
    buffer = np.empty(height * width, np.float32)
    workers = _cores()
    with ThreadPoolExecutor(workers) as pool, Progress("searching", len(rows) * len(columns), "scores") as advance:
        for left in range(0, len(columns), width):
            right = min(left + width, len(columns))
            across = columns.block(left, right)
            for top in range(0, len(rows), height):
                bottom = min(top + height, len(rows))
                down = rows.block(top, bottom)
                tile = buffer[: len(down) * len(across)].reshape(len(down), len(across))
                np.matmul(down, across.T, out=tile)
                work = [
                    (kernels.scan_rows, forward, down, top, across, left, part) for part in _parts(len(down), workers)
                ]
                if backward is not None:
                    work += [
                        (kernels.scan_columns, backward, across, left, down, top, part)
                        for part in _parts(len(across), workers)
                    ]
                list(pool.map(lambda one: _look(tile, slack, ties, *one), work))  # noqa: B023 (done before the next)
                advance(tile.size)
        for asked in (forward, backward):
            if asked is not None:
                list(
                    pool.map(
                        lambda part, keys=asked.keys: keys[slice(*part)].sort(axis=1), _parts(len(asked.keys), workers)
                    )
                )


def _look(
    tile: NDArray[np.float32],
    slack: np.float32,
    ties: Ties,
    kernel: Callable[..., Any],
    asked: Asked,
    queries: NDArray[np.float32],
    first_query: int,
    candidates: NDArray[np.float32],
    first_candidate: int,
    part: tuple[int, int],
) -> None:
    kernel(
        tile, *part, queries, asked.query_of[first_query : first_query + len(queries)], slack, candidates,
        first_candidate, asked.keys, asked.fill, asked.floor, asked.offsets, asked.documents, asked.known, asked.better,
        _TIES[ties],
    )  # fmt: skip


def _slack(dimension: int, lengths: float) -> float:
    """How far a float32 matrix product may be from the score: d u / (1 - d u) times the product of the lengths.

    The bound holds for any order of summation, with or without fused operations (Higham, Accuracy and Stability of
    Numerical Algorithms, section 3.1); u = 2^-24. The 16 more cover the rounding of the score itself and of
    score ± slack; the last term, underflow.
    """
    unit = (dimension + 16) * 2.0**-24
    return unit / (1.0 - unit) * lengths * 1.01 + dimension * 2.0**-125


def _parts(n: int, workers: int) -> list[tuple[int, int]]:
    """[0, n) in `workers` parts, cut at multiples of 16 (a cache line of scores)."""
    cuts = [min(n, -(-n * i // workers // 16) * 16) for i in range(workers)] + [n]
    return [(a, b) for a, b in itertools.pairwise(cuts) if b > a]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
