"""The ranks of right candidates under a reading, of all scores or of ranked lists: a lowest and a highest each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.evaluation.explaining.readings import Reading
from visir.evaluation.explaining.world import Part, Places, World
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, decimals_of
from visir.jit import njit
from visir.records import SIDES, Run

# Where right candidates stand among the others: counts from which every rule for equal scores gives a rank.

Numbers = NDArray[np.float64]
REORDERED = ("source order", "reverse order", "id", "trec")
"""Rules that put equal scores in another order."""


@dataclass(frozen=True, eq=False)
class Standings:
    """The place of each right candidate of a part."""

    rank: Numbers  # (p,) its rank, equal scores in the order of the rule
    better: Numbers  # (p,) how many candidates have a better score
    equal: Numbers  # (p,) how many candidates have the same score, with itself
    is_ranked: NDArray[np.bool_]  # (p,) whether it is known where it stands; the numbers of others mean nothing
    is_open: NDArray[np.bool_]  # (p,) whether more candidates may have the same score, behind the end of a list
    # (p,) for those that are not ranked: the lowest rank that is possible; inf for one that is no candidate.
    behind: Numbers

    @property
    def has_ties(self) -> bool:
        """Whether another candidate has the score of a right one."""
        return bool((self.equal[self.is_ranked] > 1).any())

    def interval(self, ties: str, row: Places) -> tuple[Numbers, Numbers]:
        """The lowest and the highest rank of each right candidate under a rule for equal scores."""
        # row: (p,) the query of each right candidate.
        lowest, highest = self.behind.copy(), np.full(len(row), np.inf)
        ranked = np.flatnonzero(self.is_ranked)
        low, high = self._counted(ties, ranked, row[ranked])
        if ties not in ("list", "optimistic", "any alike"):
            high = np.where(self.is_open[ranked], np.inf, high)
        if ties in REORDERED:  # the list does not say how many of the same score come before it
            low = np.where(self.is_open[ranked], self._counted("optimistic", ranked, row[ranked])[0], low)
        lowest[ranked], highest[ranked] = low, high
        return lowest, highest

    def _counted(self, ties: str, ranked: Places, row: Places) -> tuple[Numbers, Numbers]:
        rank, better, equal = self.rank[ranked], self.better[ranked], self.equal[ranked]
        if ties in ("list", *REORDERED):
            return rank, rank
        if ties == "any alike":
            return better + 1, better + 1
        nth, right = _among_right(row, better, rank)
        wrong = equal - right
        if ties == "any order":
            return better + nth + 1, better + wrong + nth + 1
        ranks = {
            "optimistic": better + nth + 1,
            "pessimistic": better + wrong + nth + 1,
            "average": better + nth + 1 + wrong / 2,
            "at most": better + equal,
            "average of all": better + (equal + 1) / 2,
            "average down": np.maximum(np.floor(better + (equal + 1) / 2), 1),
        }[ties]
        return ranks, ranks


def _among_right(row: Places, better: Numbers, rank: Numbers) -> tuple[Numbers, Numbers]:
    """(nth, right): which of the right candidates of its query with one score each is, from 0, and how many those
    are."""
    # Right candidates of one query have one score where equally many others are better.
    order = np.lexsort((rank, better, row))
    same = np.concatenate([[False], (np.diff(row[order]) == 0) & (np.diff(better[order]) == 0)])
    starts = np.flatnonzero(~same)
    group = np.cumsum(~same) - 1
    sizes = np.diff(np.concatenate([starts, [len(order)]]))
    nth, right = np.empty(len(order)), np.empty(len(order))
    nth[order] = np.arange(len(order)) - starts[group]
    right[order] = sizes[group]
    return nth, right


MOST_HELD = 0.5
"""Of the candidates of a matrix, up to which share they are taken out of it for a part."""


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """The score of every query and candidate."""

    queries: Places  # (n,) the queries, by position in the world
    documents: Places  # (m,) the candidates, by position in the world
    scores: NDArray[np.float32]  # (n, m) their scores; higher is better
    id_place: Places  # (u,) the place of each document of the world in the order of ids, which breaks ties

    @cached_property
    def _row_of(self) -> Places:
        return _inverse(self.queries, int(self.queries.max(initial=-1)) + 1)

    @cached_property
    def _column_of(self) -> Places:
        return _inverse(self.documents, len(self.id_place))

    def standings(self, part: Part, ties: str) -> Standings:
        """Where the right candidates of a part stand."""
        held = part.candidates[self.documents]
        if held.mean() < MOST_HELD:  # few candidates: their columns alone are faster than weights of 0
            return self._only(part.queries, held).standings(part, ties)
        row, document = part.pairs
        counts = part.candidates.astype(np.int64) if part.copies is None else part.candidates * part.copies
        weight = counts[self.documents].astype(np.float32)
        rows, columns = self._row_of[part.queries][row], self._column_of[document]
        if part.query_fold is None or part.document_fold is None:
            of_query, of_document = np.zeros(0, np.int32), np.zeros(0, np.int32)
        else:
            of_query = part.query_fold[row].astype(np.int32)
            of_document = part.document_fold[self.documents].astype(np.int32)
        place = self.documents if ties in ("source order", "reverse order") else self.id_place[self.documents]
        place = (-place if ties in ("reverse order", "trec") else place).astype(np.int32)
        better, equal, earlier = _count(self.scores, rows, columns, weight, of_query, of_document, place)
        is_ranked = part.candidates[document]
        if len(of_query):
            is_ranked = is_ranked & (part.document_fold[document] == of_query)  # type: ignore[index]
        p = len(row)
        return Standings(better + earlier + 1, better, equal, is_ranked, np.zeros(p, bool), np.full(p, np.inf))

    def _only(self, queries: Places, held: NDArray[np.bool_]) -> ScoreMatrix:
        """The scores of these queries and of the candidates that are held."""
        rows = self._row_of[queries]
        return ScoreMatrix(queries, self.documents[held], self.scores[np.ix_(rows, held)], self.id_place)


def _inverse(items: Places, size: int) -> Places:
    positions = np.full(size + 1, -1)
    positions[items] = np.arange(len(items))
    return positions


@njit("reassoc")
def _count(
    scores: Any, rows: Any, columns: Any, weight: Any, of_query: Any, of_document: Any, place: Any
) -> tuple[Any, Any, Any]:
    """Count, for each right candidate, the others: with a better score, with the same one, and those before it
    there."""
    # Sums of whole numbers below 2^24 are exact in float32, in any order.
    better, equal, earlier = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    zero, has_folds = np.float32(0), len(of_document) > 0
    for p in range(len(rows)):
        if rows[p] < 0 or columns[p] < 0:
            continue
        values = scores[rows[p]]
        own = values[columns[p]]
        above, same = zero, zero
        if has_folds:
            fold = of_query[p]
            for j in range(len(values)):
                inside = weight[j] if of_document[j] == fold else zero
                above += inside if values[j] > own else zero
                same += inside if values[j] == own else zero
        else:
            for j in range(len(values)):
                above += weight[j] if values[j] > own else zero
                same += weight[j] if values[j] == own else zero
        better[p], equal[p] = above, same
        if same > weight[columns[p]]:
            before = zero
            for j in range(len(values)):
                is_inside = not has_folds or of_document[j] == of_query[p]
                if is_inside and values[j] == own and place[j] < place[columns[p]]:
                    before += weight[j]
            earlier[p] = before
    return better, equal, earlier


# Ranked lists as arrays: the best candidates of each query of a run.


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
            if rule in ("id", "trec"):
                key = np.append(self.id_place, len(self.id_place))[self.order]
            else:
                key = self.order.astype(np.int64)
            key = -key if rule in ("trec", "reverse order") else key
            first, _ = self.stretches
            order = np.lexsort((key, first), axis=1)
            self._reordered[rule] = replace(self, order=np.take_along_axis(self.order, order, axis=1), remembers=False)
        return self._reordered[rule]

    @cached_property
    def _reordered(self) -> dict[str, RankedLists]:
        return {}

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


# The ranks of right candidates under a reading, as far as the lists reach: a lowest and a highest rank each.


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """The ranks of the right candidates of each query."""

    # (p,) the lowest possible rank of each right candidate, ascending within a query; inf where it cannot be found.
    lowest: Numbers
    highest: Numbers  # (p,) the highest possible rank, likewise; inf where the lists end before it
    offsets: Places  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`
    weights: Numbers  # (n,) the weight of each query in the mean
    sizes: tuple[int, ...]  # the number of candidates of each fold
    has_ties: bool  # whether another candidate has the score of a right one

    @property
    def positives(self) -> Places:
        """(n,) the number of right candidates of each query."""
        return np.diff(self.offsets)


def known_ranks(scored: RankedLists | ScoreMatrix, part: Part, reading: Reading, ties: str) -> KnownRanks:
    """Rank the right candidates of a part."""
    row, _ = part.pairs
    ties = "any alike" if reading["positives"] == "any alike" else ties
    standings = scored.standings(part, ties)
    lowest, highest = standings.interval(ties, row)
    if part.copies_before is not None:
        lowest, highest = lowest + part.copies_before[row], highest + part.copies_before[row]
    depth = reading.value("depth")
    if isinstance(depth, int):
        lowest[lowest > depth], highest[highest > depth] = np.inf, np.inf
    row = row if part.groups is None else part.groups[row]
    is_known = bool((lowest == highest).all())
    lowest = lowest[np.lexsort((lowest, row))]
    highest = lowest if is_known else highest[np.lexsort((highest, row))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(part.weights)))]).astype(np.int64)
    return KnownRanks(lowest, highest, offsets, part.weights, part.sizes, standings.has_ties)


# How easily digits fit by accident, and what chance reaches.

MOST_ACCIDENTS = 0.05
"""Up to this expected number of accidental fits, a reading is named."""
_TAIL = 1e-4
_SPREAD = 0.03
"""Relative spread of a value that is no recall, between readings near one another."""


def chance_of_fit(values: Mapping[str, float], queries: int, decimals: int, scale: float = 100.0) -> float:
    """The highest chance that another reading gives all printed digits of one task."""
    chance, before = 1.0, 0.0
    recalls = sorted((int(match[1]), value) for label, value in values.items() if (match := LABEL.fullmatch(label)))
    unit = 10.0**-decimals
    for _, value in recalls:
        share = min(max(value / scale, 0.0), 1.0)
        left = max(1 - before, 0.0)
        rest = min(max((share - before) / left, 0.0), 1.0) if left > 0 else 0.0
        variance = queries * left * rest * (1 - rest)
        chance *= min(1.0, max(1.0, queries * unit / scale) / math.sqrt(2 * math.pi * (variance + 0.16)))
        before = max(before, share)
    for label, value in values.items():
        if LABEL.fullmatch(label) or (label == "rsum" and len(recalls) == len(RSUM_CUTOFFS)):
            continue
        step = 10.0 ** -decimals_of(label, decimals)
        chance *= min(1.0, step / (2.5 * max(_SPREAD * abs(value), step)))
    return chance


def is_near(ours: float, published: float, queries: int, unit: float, scale: float = 100.0) -> bool:
    """Whether a value is as near the printed one as another sample of queries would give: three standard errors."""
    share = min(max(published / scale, 0.0), 1.0)
    spread = scale * math.sqrt(max(share * (1 - share), 1 / queries) / queries)
    return abs(ours - published) <= 3 * spread + unit


def interval_of_chance(ranks: KnownRanks, k: int, samples: int) -> tuple[float, float]:
    """Between which values, in percent, hit@k of random rankings lies, but for one case in 5,000."""
    gallery = max(ranks.sizes)
    expected = float(ranks.weights @ (1 - (1 - min(k / gallery, 1.0)) ** ranks.positives))
    least = min(k / gallery, 1.0)
    return 100 * _quantile(_TAIL, samples, least) / samples, 100 * _quantile(1 - _TAIL, samples, expected) / samples


def _quantile(level: float, samples: int, share: float) -> int:
    """The least count whose binomial distribution function reaches a level."""
    if share >= 1:
        return samples
    mass = math.exp(samples * math.log1p(-share))
    if mass == 0:  # far from 0: the normal distribution will do
        spread = math.sqrt(samples * share * (1 - share))
        return round(samples * share + (4 if level > 0.5 else -4) * spread)
    count, total = 0, mass
    while total < level and count < samples:
        mass *= (samples - count) / (count + 1) * share / (1 - share)
        count, total = count + 1, total + mass
    return count
