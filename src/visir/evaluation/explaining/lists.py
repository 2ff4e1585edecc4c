"""Ranked lists as arrays: the best candidates of each query of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.score_matrix import REORDERED, Standings
from visir.evaluation.explaining.world import Places, World
from visir.records import SIDES, Run

Orders = NDArray[np.int32]
EARLY = (*REORDERED, "optimistic", "average", "average of all", "average down", "any order", "any alike")
"""Ties under which one of several equal scores may stand before its place in the list."""
_TOGETHER = ("average of all", "average down", "any alike")
"""Ties under which right candidates with one score have one rank."""
_LARGEST = 50_000_000
"""How many places are remembered at most."""


@dataclass(frozen=True, eq=False)
class RankedLists:
    """The best candidates of each query."""

    queries: Places  # (n,) the queries, by position in the world
    order: Orders  # (n, L) the candidates, best first, by position in the world; -1 behind the end of a list
    scores: NDArray[np.float32]  # (n, L) their scores; -inf behind the end
    # Whether nothing stands behind the end of any list: it holds every candidate that its query was compared with, or
    # the search gave no more.
    is_whole: bool
    id_place: Places  # (u,) the place of each candidate in the order of ids, which breaks ties
    remembers: bool = True  # whether to remember the place of every candidate, for many look-ups

    @cached_property
    def row_of(self) -> Places:
        """The row of each query; -1 for a query without a list."""
        rows = np.full(int(self.queries.max(initial=-1)) + 2, -1)
        rows[self.queries] = np.arange(len(self.queries))
        return rows

    def rows(self, queries: Places) -> Places:
        """The rows of these queries, -1 without one."""
        rows: Places = self.row_of[np.minimum(queries, len(self.row_of) - 1)]
        return rows

    @cached_property
    def has_ties(self) -> bool:
        """Whether two candidates of a query have one score."""
        same = (self.scores[:, 1:] == self.scores[:, :-1]) & (self.order[:, 1:] >= 0)
        return bool(same.any())

    @cached_property
    def stretches(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(n, L) the first and the last place of the stretch of equal scores around each place."""
        n, length = self.scores.shape
        places = np.broadcast_to(np.arange(length, dtype=np.int32), (n, length))
        starts = np.ones((n, length), bool)
        starts[:, 1:] = self.scores[:, 1:] != self.scores[:, :-1]
        first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
        ends = np.ones((n, length), bool)
        ends[:, :-1] = starts[:, 1:]
        last = np.minimum.accumulate(np.where(ends, places, length)[:, ::-1], axis=1)[:, ::-1]
        return first.astype(np.int32), last.astype(np.int32)

    @cached_property
    def _inverse(self) -> Orders | None:
        """(n, u + 1) the place of each candidate in each list, -1 where it is not; None where that is too large."""
        n, size = len(self.queries), len(self.id_place) + 1
        if n * size > _LARGEST or not self.remembers:
            return None
        inverse = np.full((n, size), -1, np.int32)
        places = np.broadcast_to(np.arange(self.order.shape[1], dtype=np.int32), self.order.shape)
        np.put_along_axis(inverse, self.order.astype(np.int64) % size, places, axis=1)
        inverse[:, -1] = -1
        return inverse

    def places(self, rows: Places, documents: Places) -> Places:
        """The place of a candidate in the list of a row, from 0; -1 where the list does not have it."""
        if self._inverse is not None:
            known: Places = self._inverse[rows, documents].astype(np.int64)
            return np.where(rows >= 0, known, -1)
        result = np.full(len(rows), -1)
        for start in range(0, len(rows), 4096):
            part = slice(start, start + 4096)
            matches = self.order[rows[part]] == documents[part, None]
            at = matches.argmax(axis=1)
            result[part] = np.where(matches[np.arange(len(at)), at] & (rows[part] >= 0), at, -1)
        return result

    def reordered(self, rule: str) -> RankedLists:
        """The lists with equal scores in another order."""
        if rule not in self._reordered:
            self._reordered[rule] = self._in_order(rule)
        return self._reordered[rule]

    @cached_property
    def _reordered(self) -> dict[str, RankedLists]:
        return {}

    def _in_order(self, rule: str) -> RankedLists:
        if rule in ("id", "trec"):
            key = np.append(self.id_place, len(self.id_place))[self.order]
        else:
            key = self.order.astype(np.int64)
        key = -key if rule in ("trec", "reverse order") else key
        first, _ = self.stretches
        order = np.lexsort((key, first), axis=1)
        return replace(self, order=np.take_along_axis(self.order, order, axis=1), remembers=False)

    def standings(self, part: Part, ties: str) -> Standings:
        """Where the right candidates of a part stand."""
        lists = self.reordered(ties) if ties in REORDERED and self.has_ties else self
        row, document = part.pairs
        rows = self.rows(part.queries)
        counted = lists._counted(part, rows)
        place = lists.places(rows[row], document)
        at = np.maximum(place, 0)
        through = counted[row, at].astype(np.float64)
        itself = through - np.where(at > 0, counted[row, at - 1], 0)
        rank = through - itself + 1
        better, equal, is_open = rank - 1, np.ones(len(row)), np.zeros(len(row), bool)
        if self.has_ties:
            first, last = (ends[rows[row], at] for ends in self.stretches)
            better = np.where(first > 0, counted[row, first - 1], 0).astype(np.float64)
            equal = counted[row, last] - better
            is_open = (last == self.order.shape[1] - 1) & (not self.is_whole)
        is_ranked = (place >= 0) & (itself > 0)
        behind = np.full(len(row), np.inf)
        if not self.is_whole:
            absent = np.flatnonzero(~is_ranked)
            behind[absent] = self._behind(part, counted, rows, row[absent], document[absent], ties)
        return Standings(rank, better, equal, is_ranked, is_open, behind)

    def _counted(self, part: Part, rows: Places) -> NDArray[np.int32]:
        """(n, L) how many candidates of the part are at or above each place."""
        order = self.order[rows]
        counts = part.candidates if part.copies is None else np.where(part.candidates, part.copies, 0)
        inside = counts[order]
        if part.query_fold is not None and part.document_fold is not None:
            inside = inside * (part.document_fold[order] == part.query_fold[:, None])
        inside[rows < 0] = 0
        return np.cumsum(inside, axis=1, dtype=np.int32)

    def _behind(
        self, part: Part, counted: NDArray[np.int32], rows: Places, row: Places, document: Places, ties: str
    ) -> NDArray[np.float64]:
        """The lowest rank that is possible for right candidates behind the end of their list."""
        after = counted[row, -1].astype(np.float64)
        if ties in EARLY and self.has_ties and len(row):  # it may have the score of the last ones
            begin = self.stretches[0][rows[row], -1]
            after = np.where(begin > 0, counted[row, begin - 1], 0).astype(np.float64)
        same = np.concatenate([[False], np.diff(row) == 0])[: len(row)]
        starts = np.flatnonzero(~same)
        earlier = np.zeros(len(row)) if ties in _TOGETHER else np.arange(len(row)) - starts[np.cumsum(~same) - 1]
        outside = ~part.candidates[document] | (rows[row] < 0)
        return np.where(outside, np.inf, after + earlier + 1)


def id_places(world: World, side: str) -> Places:
    """The place of each image or caption in the order of ids."""
    ids = world.ids(side)
    result = np.empty(len(ids), np.int64)
    result[pc.array_sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return result


def lists_of_run(run: Run, world: World, size: int) -> RankedLists:
    """The lists of a run."""
    queries, documents = SIDES[run.task]
    lengths = np.diff(run.offsets)
    longest = int(lengths.max(initial=1))
    inside = np.arange(longest) < lengths[:, None]
    order = np.full(inside.shape, -1, np.int32)
    order[inside] = world.places(documents, run.documents)[run.indices]
    scores: NDArray[Any] = np.full(inside.shape, -np.inf, np.float32)
    scores[inside] = run.scores
    folds = run.provenance.get("folds")
    sizes: Any = size
    if isinstance(folds, list):
        sizes = np.repeat([fold["candidates"] for fold in folds], [fold["queries"] for fold in folds])
    whole = bool(((lengths >= sizes) | (lengths < run.depth)).all())
    return RankedLists(world.places(queries, run.queries), order, scores, whole, id_places(world, documents))
