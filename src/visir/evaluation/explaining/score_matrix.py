"""The scores of all queries and candidates: the rank of a right candidate is a count, nothing is sorted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.explaining.parts import Part
from visir.evaluation.explaining.standings import Standings
from visir.evaluation.explaining.world import Places
from visir.jit import njit

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
