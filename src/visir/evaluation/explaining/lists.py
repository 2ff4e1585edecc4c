"""Ranked lists as arrays: the best candidates of each query, from a run or from scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.evaluation.explaining.world import Places, World
from visir.records import SIDES, Run

Orders = NDArray[np.int32]
_LARGEST = 50_000_000
"""How many places are remembered at most."""


@dataclass(frozen=True, eq=False)
class RankedLists:
    """The best candidates of each query.

    Attributes:
        queries: (n,) the queries, by position in the world.
        order: (n, L) the candidates, best first, by position in the world; -1 behind the end of a list.
        scores: (n, L) their scores; -inf behind the end.
        is_whole: Whether nothing stands behind the end of any list: it holds every candidate that its query was
            compared with, or the search gave no more.
        id_place: (u,) the place of each candidate in the order of ids, which breaks ties.
        remembers: Whether to remember the place of every candidate, for many look-ups.
    """

    queries: Places
    order: Orders
    scores: NDArray[np.float32]
    is_whole: bool
    id_place: Places
    remembers: bool = True

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
        """The lists with equal scores in another order.

        Args:
            rule: "source order", "reverse order", "id" or "trec" (by falling id).
        """
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

    def cut(self, depth: int) -> RankedLists:
        """The lists with their first places only."""
        if depth >= self.order.shape[1]:
            return self
        return replace(self, order=self.order[:, :depth], scores=self.scores[:, :depth], is_whole=False)


def id_places(world: World, side: str) -> Places:
    """The place of each image or caption in the order of ids."""
    ids = world.ids(side)
    result = np.empty(len(ids), np.int64)
    result[pc.array_sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return result


def lists_of_run(run: Run, world: World) -> RankedLists:
    """The lists of a run.

    Args:
        run: The run.
        world: The images and captions.

    Returns:
        The lists; whole where every answer has all candidates of its gallery or fold, or ends before the depth that was
        asked for, so that nothing stands behind it (a second stage that drops the tail).
    """
    queries, documents = SIDES[run.task]
    lengths = np.diff(run.offsets)
    longest = int(lengths.max(initial=1))
    inside = np.arange(longest) < lengths[:, None]
    order = np.full(inside.shape, -1, np.int32)
    order[inside] = world.places(documents, run.documents)[run.indices]
    scores: NDArray[Any] = np.full(inside.shape, -np.inf, np.float32)
    scores[inside] = run.scores
    folds = run.provenance.get("folds")
    sizes: Any = run.gallery.size
    if isinstance(folds, list):
        sizes = np.repeat([fold["candidates"] for fold in folds], [fold["queries"] for fold in folds])
    whole = bool(((lengths >= sizes) | (lengths < run.depth)).all())
    return RankedLists(world.places(queries, run.queries), order, scores, whole, id_places(world, documents))


def lists_of_scores(
    scores: NDArray[np.float32], queries: Places, documents: Places, id_place: Places, depth: int
) -> RankedLists:
    """The lists of a matrix of scores, ties by id.

    Args:
        scores: (n, m) the score of each query and candidate.
        queries: (n,) the queries.
        documents: (m,) the candidates.
        id_place: (u,) the place of each document of the world in the order of ids.
        depth: How many candidates are kept for each query.

    Returns:
        The lists.
    """
    by_id = np.argsort(id_place[documents], kind="stable")
    documents, scores = documents[by_id], scores[:, by_id]
    m = len(documents)
    if depth < m // 2:
        best = np.argpartition(-scores, depth, axis=1)[:, :depth]
        best.sort(axis=1)
        part = np.take_along_axis(scores, best, axis=1)
        within = np.argsort(-part, axis=1, kind="stable")
        order = np.take_along_axis(best, within, axis=1)
        best_scores = np.take_along_axis(part, within, axis=1)
    else:
        order = np.argsort(-scores, axis=1, kind="stable")
        best_scores = np.take_along_axis(scores, order, axis=1)
    return RankedLists(queries, documents[order].astype(np.int32), best_scores, order.shape[1] == m, id_place)
