"""The scores of all queries and candidates: the rank of a right candidate is a count, nothing is sorted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.world import Places
from visir.jit import njit

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
