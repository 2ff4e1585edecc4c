"""From vectors to scores, from scores to ranks, from ranks to values: each step a function of arrays.

Of lists that end early a rank is known within bounds only: ranks and values are pairs, (lowest, highest).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.evaluation.explaining.world import Part, Places, World, place_among
from visir.evaluation.measures import RSUM_CUTOFFS
from visir.evaluation.published.judge import LABEL, decimals_of
from visir.jit import njit, pays, plain
from visir.records import SIDES, Run

Numbers = NDArray[np.float64]
Matrix = NDArray[Any]

# Scores of dense vectors: (queries, candidates, task) → a matrix; a higher score is a better candidate.

Similarity = Callable[[Matrix, Matrix, str], Matrix]
_NEAREST = 10
_ROWS = 1024
"""How many queries are scored at once."""


def products(queries: Matrix, documents: Matrix, less: Matrix | float = 0.0) -> NDArray[np.float32]:
    """Products of all rows, less a number for each candidate, some rows at a time to save memory."""
    # Products of float64 vectors are rounded to float32, so that equal vectors have equal scores.
    values = np.empty((len(queries), len(documents)), np.float32)
    for start in range(0, len(queries), _ROWS):
        values[start : start + _ROWS] = queries[start : start + _ROWS] @ documents.T - less
    return values


def unit(vectors: Matrix) -> Matrix:
    """Vectors of length 1; those of length 0 as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Matrix = vectors / np.where(lengths == 0, 1, lengths)
    return scaled


def dot(queries: Matrix, documents: Matrix, task: str) -> Matrix:
    """Dot products of the vectors as they are."""
    return products(queries, documents)


def cosine_of(change: Callable[[Matrix], Matrix] = lambda vectors: vectors) -> Similarity:
    """The cosine of vectors that are changed side by side."""
    return lambda queries, documents, task: products(unit(change(queries)), unit(change(documents)))


def first_dimensions(share: float) -> Similarity:
    """The cosine of the first dimensions only: a number of them, or a share."""
    return cosine_of(lambda vectors: vectors[:, : int(vectors.shape[1] * share if share < 1 else share)])


def one_side_normalised(side: str) -> Similarity:
    """Only the lengths of candidates change an order: those of queries scale a whole list."""
    cosine = cosine_of()
    return lambda queries, documents, task: (cosine if SIDES[task][1] == side else dot)(queries, documents, task)


def signs(queries: Matrix, documents: Matrix, task: str) -> Matrix:
    """Products of signs: whole numbers, and the length of all vectors is one."""
    return products(*(np.where(side >= 0, np.float32(1), np.float32(-1)) for side in (queries, documents)))


def eight_bits(vectors: Matrix) -> Matrix:
    """Vectors cut to whole numbers of 8 bits."""
    rounded: Matrix = np.round(vectors / (np.abs(vectors).max() or 1) * 127)
    return rounded


def standardised(vectors: Matrix) -> Matrix:
    """Each dimension with mean 0 and spread 1."""
    spread = vectors.std(axis=0)
    standard: Matrix = (vectors - vectors.mean(axis=0)) / np.where(spread == 0, 1, spread)
    return standard


def csls(queries: Matrix, documents: Matrix, task: str) -> Matrix:
    """Cosines less the mean of the nearest of each side."""
    cosines = unit(queries) @ unit(documents).T

    def near(axis: int) -> Matrix:
        count = min(_NEAREST, cosines.shape[axis])
        highest = np.moveaxis(-np.partition(-cosines, count - 1, axis=axis), axis, 0)[:count]
        mean: Matrix = highest.mean(axis=0)
        return mean

    return (2 * cosines - near(0)[None, :] - near(1)[:, None]).astype(np.float32, copy=False)


def dual_softmax(queries: Matrix, documents: Matrix, task: str, scale: float) -> Matrix:
    """Cosines times their softmax over all queries."""
    cosines = unit(queries) @ unit(documents).T
    weights = np.exp(scale * (cosines - cosines.max(axis=0)))
    values: Matrix = (cosines * weights / weights.sum(axis=0)).astype(np.float32, copy=False)
    return values


def inverted_softmax(queries: Matrix, documents: Matrix, task: str, scale: float) -> Matrix:
    """The logarithm of the softmax of cosines over all queries, which orders candidates as the softmax does."""
    scaled = scale * (unit(queries) @ unit(documents).T)
    highest = scaled.max(axis=0)
    values: Matrix = (scaled - highest - np.log(np.exp(scaled - highest).sum(axis=0))).astype(np.float32, copy=False)
    return values


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of queries and candidates: of all, or of the best of each query as a run lists them."""

    queries: Places  # (n,) the queries, by position in the world
    # (1, L) the candidates of every query, or (n, L) those of each, best first, -1 behind the end of a list
    documents: NDArray[np.int32]
    values: NDArray[np.float32]  # (n, L) their scores; higher is better; -inf behind the end of a list
    id_place: Places  # (u,) the place of each document of the world in the order of ids, which breaks ties
    is_list: bool = False  # whether equal scores have an order of their own, the list's
    # (n,) whether nothing stands behind the end of a list: it holds every candidate that its query was compared with,
    # or the search gave no more. None: of no list.
    whole: NDArray[np.bool_] | None = None

    @cached_property
    def is_whole(self) -> bool:
        """Whether nothing stands behind the end of any list."""
        return self.whole is None or bool(self.whole.all())

    @cached_property
    def row_of(self) -> Places:
        """The row of each query of the world; -1 for a query without one, and at the end."""
        rows = np.full(int(self.queries.max(initial=-1)) + 2, -1)
        rows[self.queries] = np.arange(len(self.queries))
        return rows

    @cached_property
    def column_of(self) -> Places:
        """The column of each document of the world, where the candidates are the same of every query."""
        columns = np.full(len(self.id_place) + 1, -1)
        columns[self.documents[0]] = np.arange(self.documents.shape[1])
        return columns

    @cached_property
    def has_ties(self) -> bool:
        """Whether two candidates that a list names one after the other have one score."""
        same = (self.values[:, 1:] == self.values[:, :-1]) & (self.documents[:, 1:] >= 0)
        return bool(self.is_list and same.any())

    def rows(self, queries: Places) -> Places:
        """The rows of these queries, -1 without one."""
        rows: Places = self.row_of[np.minimum(queries, len(self.row_of) - 1)]
        return rows

    def of(self, part: Part) -> Scores:
        """The scores of a part alone, where it has few of the candidates: faster than weights of 0."""
        held = part.candidates[self.documents[0]]
        if self.is_list or held.mean() >= MOST_HELD:
            return self
        values = self.values[np.ix_(self.rows(part.queries), held)]
        return Scores(part.queries, self.documents[:, held], values, self.id_place)


MOST_HELD = 0.5
"""Of the candidates of a matrix, up to which share they are taken out of it for a part."""


def id_places(world: World, side: str) -> Places:
    """The place of each image or caption in the order of ids."""
    ids = world.ids(side)
    result = np.empty(len(ids), np.int64)
    result[pc.array_sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return result


def scores_of_run(run: Run, world: World, size: int) -> Scores:
    """The lists of a run over a gallery of this size."""
    queries, documents = SIDES[run.task]
    lengths = np.diff(run.offsets)
    inside = np.arange(int(lengths.max(initial=1))) < lengths[:, None]
    order = np.full(inside.shape, -1, np.int32)
    order[inside] = world.places(documents, run.documents)[run.indices]
    values: NDArray[Any] = np.full(inside.shape, -np.inf, np.float32)
    values[inside] = run.scores
    folds = run.provenance.get("folds")
    sizes: Any = size
    if isinstance(folds, list):
        sizes = np.repeat([fold["candidates"] for fold in folds], [fold["queries"] for fold in folds])
    whole = (lengths >= sizes) | (lengths < run.depth)
    return Scores(world.places(queries, run.queries), order, values, id_places(world, documents), True, whole)


# Where right candidates stand among the others: counts from which every rule for equal scores gives a rank.


@dataclass(frozen=True, eq=False)
class Standings:
    """The place of right candidates that are ranked."""

    row: Places  # (p,) the query of each
    better: Numbers  # (p,) how many candidates have a better score
    equal: Numbers  # (p,) how many candidates have the same score, with itself
    earlier: Numbers  # (p,) how many of those are before it in the order of the rule

    @cached_property
    def _among_right(self) -> tuple[Numbers, Numbers]:
        # Right candidates of one query have one score where equally many others are better.
        order = np.lexsort((self.earlier, self.better, self.row))
        row, better = self.row[order], self.better[order]
        nth, right = np.empty(len(order)), np.empty(len(order))
        nth[order], right[order] = place_among(
            np.cumsum((np.diff(row, prepend=-1) != 0) | (np.diff(better, prepend=-1) != 0))
        )
        return nth, right

    @property
    def best(self) -> Numbers:
        """The rank in front of all wrong candidates with the same score, behind the right ones before it."""
        return self.better + self._among_right[0] + 1

    @property
    def wrong(self) -> Numbers:
        """How many wrong candidates have the same score."""
        return self.equal - self._among_right[1]


@dataclass(frozen=True)
class Rule:
    """How equal scores are counted."""

    rank: Callable[[Standings], Numbers] = lambda at: at.better + at.earlier + 1
    early: bool = False  # whether one of equal scores may get a rank before its place in a list
    closed: bool = False  # whether more equal scores behind the end of a list would change nothing
    together: bool = False  # whether right candidates with one score have one rank
    highest: Callable[[Standings], Numbers] | None = None  # where it may be any from `rank` to this
    # (documents, their places by id) → the order of equal scores; None: that of the list, or by id
    order: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]] | None = None


def ranks_of_pairs(scores: Scores, part: Part, rule: Rule) -> tuple[Numbers, Numbers, bool]:
    """(lowest, highest, has_ties): the ranks of the right pairs of a part, and whether one shares its score."""
    scores = scores.of(part)
    documents, values = scores.documents, scores.values
    row, document = part.pairs
    rows = scores.rows(part.queries)[row]
    columns = _run(_find, _find_in_numpy, documents, rows, document) if scores.is_list else scores.column_of[document]
    counts = part.candidates if part.copies is None else part.candidates * part.copies
    weight = counts[documents].astype(np.float32)
    ranked = (rows >= 0) & (columns >= 0) & (counts[document] > 0)
    of_query, of_document = np.zeros(0, np.int32), np.zeros((0, 0), np.int32)
    if part.query_fold is not None and part.document_fold is not None:
        of_query, of_document = part.query_fold[row].astype(np.int32), part.document_fold[documents].astype(np.int32)
        ranked &= part.document_fold[document] == of_query
    if rule.order is not None:
        place = rule.order(documents, np.append(scores.id_place, 0)[documents]).astype(np.int32)
    elif scores.is_list:
        place = np.arange(values.shape[1], dtype=np.int32)[None]
    else:
        place = scores.id_place[documents].astype(np.int32)
    # What a list lacks is behind its end: behind all, or beside the last ones.
    last = values[rows, -1] if len(values) else np.zeros(0, np.float32)
    behind = last if rule.early and scores.has_ties else np.full(len(row), -np.inf, np.float32)
    own = np.where(ranked, values[rows, columns], behind)
    better, equal, earlier = _run(
        _count, _count_in_numpy, values, rows, np.where(ranked, columns, -1), own, weight, of_query, of_document, place
    )
    lowest, highest = np.full(len(row), np.inf), np.full(len(row), np.inf)
    at = Standings(row[ranked], better[ranked], equal[ranked], earlier[ranked])
    low = rule.rank(at)
    high = low if rule.highest is None else rule.highest(at)
    if not scores.is_whole:
        is_cut = ~np.append(scores.whole, True)[rows]  # type: ignore[arg-type]
        is_open = ((own == last) & is_cut)[ranked] & scores.has_ties
        high = high if rule.closed else np.where(is_open, np.inf, high)
        if rule.order is not None:  # the list does not say how many of the same score come before it
            low = np.where(is_open, at.best, low)
        lost = np.flatnonzero(~ranked & part.candidates[document] & is_cut)
        lowest[lost] = better[lost] + 1 + (0 if rule.together else place_among(row[lost])[0])
    lowest[ranked], highest[ranked] = low, high
    return lowest, highest, bool((at.equal > 1).any())


_COST = 8
"""What a score that is compared costs in NumPy, in multiplications (`visir.jit.pays`)."""
_COMPARED = 2**20
"""Scores that NumPy compares at once."""


def _run(loop: Any, in_numpy: Any, *given: Matrix) -> Any:
    """What a loop finds, or NumPy as long as nobody has compiled it. The first is a matrix, the second its rows."""
    compiled = pays(_COST * len(given[1]) * given[0].shape[1], loop)
    return (loop if compiled else in_numpy)(*(plain(np.ascontiguousarray(array)) for array in given))


def _pieces(rows: Any, width: int) -> Iterator[Any]:
    """Pairs that have a row, as many at once as NumPy compares."""
    some, step = np.flatnonzero(rows >= 0), max(_COMPARED // max(width, 1), 1)
    return (some[start : start + step] for start in range(0, len(some), step))


@njit()
def _find(documents: Any, rows: Any, wanted: Any) -> Any:
    """The column of a document in a row; -1 where there is none."""
    columns = np.full(len(rows), -1)
    for p in range(len(rows)):
        if rows[p] >= 0:
            for j in range(documents.shape[1]):
                if documents[rows[p], j] == wanted[p]:
                    columns[p] = j
                    break
    return columns


def _find_in_numpy(documents: Any, rows: Any, wanted: Any) -> Any:
    """As `_find`."""
    columns = np.full(len(rows), -1)
    for some in _pieces(rows, documents.shape[1]):
        same = documents[rows[some]] == wanted[some, None]
        columns[some] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
    return columns


@njit("reassoc")
def _count(
    scores: Any, rows: Any, columns: Any, own: Any, weight: Any, of_query: Any, of_document: Any, place: Any
) -> tuple[Any, Any, Any]:
    """Count for each pair the candidates with a better score, with the same one, and those before it there."""
    # Sums of whole numbers below 2^24 are exact in float32, in any order.
    better, equal, earlier = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    zero, has_folds = np.float32(0), len(of_query) > 0
    for p in range(len(rows)):
        if rows[p] < 0:
            continue
        values = scores[rows[p]]
        weights = weight[rows[p] if len(weight) > 1 else 0]
        score, above, same = own[p], zero, zero
        if has_folds:
            fold, folds = of_query[p], of_document[rows[p] if len(of_document) > 1 else 0]
            for j in range(len(values)):
                inside = weights[j] if folds[j] == fold else zero
                above += inside if values[j] > score else zero
                same += inside if values[j] == score else zero
        else:
            for j in range(len(values)):
                above += weights[j] if values[j] > score else zero
                same += weights[j] if values[j] == score else zero
        better[p], equal[p] = above, same
        if columns[p] >= 0 and same > weights[columns[p]]:
            places, before = place[rows[p] if len(place) > 1 else 0], zero
            for j in range(len(values)):
                is_inside = not has_folds or of_document[rows[p] if len(of_document) > 1 else 0][j] == of_query[p]
                if is_inside and values[j] == score and places[j] < places[columns[p]]:
                    before += weights[j]
            earlier[p] = before
    return better, equal, earlier


def _count_in_numpy(
    scores: Any, rows: Any, columns: Any, own: Any, weight: Any, of_query: Any, of_document: Any, place: Any
) -> tuple[Any, Any, Any]:
    """As `_count`."""

    def of(table: Any, some: Any) -> Any:
        return table[rows[some]] if len(table) > 1 else table[:1]

    better, equal, earlier = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for some in _pieces(rows, scores.shape[1]):
        values, score, inside = scores[rows[some]], own[some, None], of(weight, some)
        column, nth = columns[some], np.arange(len(some))
        weights, places = np.broadcast_to(inside, values.shape), np.broadcast_to(of(place, some), values.shape)
        if len(of_query):
            inside = np.where(of(of_document, some) == of_query[some, None], inside, np.float32(0))
        same = np.where(values == score, inside, np.float32(0))
        better[some], equal[some] = np.where(values > score, inside, np.float32(0)).sum(axis=1), same.sum(axis=1)
        shared = np.flatnonzero((column >= 0) & (equal[some] > weights[nth, column]))
        before = places[shared] < places[shared, column[shared]][:, None]
        earlier[some[shared]] = np.where(before, same[shared], np.float32(0)).sum(axis=1)
    return better, equal, earlier


def rehearse() -> None:
    """Call the loops for nothing, with the types that they always have: that compiles them, or loads them."""
    none, rows = plain(np.zeros((0, 0), np.int32)), plain(np.zeros(0, np.int64))
    scores, own = plain(np.zeros((0, 0), np.float32)), plain(np.zeros(0, np.float32))
    _find(none, rows, rows)
    _count(scores, rows, rows, own, scores, plain(np.zeros(0, np.int32)), none, none)


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """The ranks of the right candidates of each query, as far as they are known."""

    # (p,) the lowest possible rank of each right candidate, ascending within a query; inf where it cannot be found.
    lowest: Numbers
    highest: Numbers  # (p,) the highest possible rank, likewise; inf where the lists end before it
    offsets: Places  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`
    weights: Numbers  # (n,) the weight of each query in the mean
    sizes: tuple[int, ...]  # the number of candidates of each fold
    has_ties: bool  # whether another candidate has the score of a right one

    @cached_property
    def is_exact(self) -> bool:
        """Whether every rank is known."""
        return bool((self.highest == self.lowest).all())

    def mean(self, recall: Recall, k: int) -> tuple[float, float]:
        """(lowest, highest): the mean of a recall in percent."""
        if k < 1:
            return 0.0, 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            high = 100 * float(self.weights @ recall(Ranked(self.lowest, self.offsets), k))
            if self.is_exact:
                return high, high
            return 100 * float(self.weights @ recall(Ranked(self.highest, self.offsets), k)), high


def known_ranks(scores: Scores, part: Part, rule: Rule, depth: int | None = None) -> KnownRanks:
    """Rank the right candidates of a part; behind a depth nothing is found."""
    lowest, highest, has_ties = ranks_of_pairs(scores, part, rule)
    row, _ = part.pairs
    if part.copies_before is not None:
        lowest, highest = lowest + part.copies_before[row], highest + part.copies_before[row]
    if depth is not None:
        lowest[lowest > depth], highest[highest > depth] = np.inf, np.inf
    row = row if part.groups is None else part.groups[row]
    is_exact = bool((lowest == highest).all())
    lowest = lowest[np.lexsort((lowest, row))]
    highest = lowest if is_exact else highest[np.lexsort((highest, row))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(part.weights)))]).astype(np.int64)
    return KnownRanks(lowest, highest, offsets, part.weights, part.sizes, has_ties)


# The meanings of R@k: (ranks, k) → the value of each query.


@dataclass(frozen=True, eq=False)
class Ranked:
    """The ranks of the right candidates, query by query."""

    ranks: Numbers  # (p,) ascending within a query; inf for one that is not found
    offsets: Places  # (n + 1,) query i has the slice `offsets[i]:offsets[i + 1]`

    @property
    def positives(self) -> Numbers:
        """(n,) the number of right candidates."""
        return np.diff(self.offsets).astype(np.float64)

    @property
    def nth(self) -> Numbers:
        """(p,) which right candidate of its query each is, from 0."""
        nth: Numbers = np.arange(len(self.ranks)) - np.repeat(self.offsets[:-1], np.diff(self.offsets)).astype(float)
        return nth

    def total(self, values: Numbers | NDArray[np.bool_]) -> Numbers:
        """(n,) the sum of a value of each right candidate over its query."""
        sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        total: Numbers = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return total

    def hits(self, k: int) -> Numbers:
        """(n,) the number of right candidates in the first k."""
        return self.total(self.ranks <= k)

    @property
    def best(self) -> Numbers:
        """(n,) the best rank; inf for a query that finds nothing."""
        best: Numbers = np.where(np.diff(self.offsets) > 0, np.append(self.ranks, np.inf)[self.offsets[:-1]], np.inf)
        return best


Recall = Callable[[Ranked, int], Numbers]


def share(numerator: Numbers, denominator: Numbers) -> Numbers:
    """A share of each query; 0 where there is nothing to share."""
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def ndcg(ranked: Ranked, k: int) -> Numbers:
    """nDCG@k of right and wrong candidates."""
    inside = ranked.ranks <= k
    gains = np.where(inside, 1 / np.log2(np.where(inside, ranked.ranks, 1) + 1), 0)
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(1, k + 1) + 1))])
    return share(ranked.total(gains), ideal[np.minimum(ranked.positives, k).astype(int)])


def average_precision(ranked: Ranked, k: int) -> Numbers:
    """The average precision within k."""
    inside = ranked.ranks <= k
    precision = np.where(inside, (ranked.nth + 1) / np.where(inside, ranked.ranks, 1), 0)
    return share(ranked.total(precision), ranked.positives)


# How easily digits fit by accident, and what chance reaches.

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
    least = min(k / max(ranks.sizes), 1.0)
    expected = float(ranks.weights @ (1 - (1 - least) ** np.diff(ranks.offsets)))
    low, high = stats.counts_by_chance(samples, least, expected, error=_TAIL)
    return 100 * low / samples, 100 * high / samples
