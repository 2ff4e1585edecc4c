"""Which queries are shown: the best, the worst, and the ones lost by a hair, chosen deterministically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import Collection, Qrels, Result, Run, strings

Kind = Literal["worst", "near", "best"]
RANK_COLUMNS = ("median_rank", "mean_rank")
"""Per-query columns that hold the rank of the first positive (the median and the mean are over queries, not within)."""


@dataclass(frozen=True)
class Answer:
    """One document in the answer to a query; `score` is None for a positive further down than the run goes."""

    id: str
    rank: int | None
    score: float | None
    positive: bool


@dataclass(frozen=True)
class Example:
    """One query: `rank` of its first positive (None: not found), its `positives`, and the `top` of its answer."""

    query: str
    rank: int | None
    positives: tuple[Answer, ...]
    top: tuple[Answer, ...]


def first_ranks(result: Result, task: str) -> tuple[pa.StringArray, NDArray[np.float64]] | None:
    """Query ids and ranks of the first positive, from 1, infinite where none was found; None if the result has none."""
    table = result.per_query.get(task)
    for name in RANK_COLUMNS:
        if table is not None and name in table.column_names:
            ranks = result.values(task, name)
            # The rank measures count a positive that was not found as one below the last that was looked at.
            deepest = np.inf if result.protocol.depth is None else result.protocol.depth
            return strings(table["query_id"]), np.where(ranks <= deepest, ranks, np.inf)
    return None


class ExampleQueries:
    """The queries of one run, from which `choose` picks."""

    def __init__(self, run: Run, qrels: Qrels, result: Result | None = None) -> None:
        self.run, self.qrels = run, qrels
        self.positive = _positives(run, qrels)
        lengths = np.diff(run.offsets)
        within = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
        self.ranks = np.full(len(run), np.inf)
        rows = np.repeat(np.arange(len(run)), lengths)[self.positive]
        np.minimum.at(self.ranks, rows, within[self.positive] + 1.0)
        judged = qrels.queries.filter(pa.array(qrels.positives > 0))
        self.judged = pc.is_in(run.queries, judged).to_numpy(zero_copy_only=False)
        measured = first_ranks(result, run.task) if result is not None else None
        if measured is not None:
            positions = pc.index_in(run.queries, measured[0])
            # Only what the run does not show is taken over, so that the pictures always agree with the rank above them.
            deeper = ~np.isfinite(self.ranks) & pc.is_valid(positions).to_numpy(zero_copy_only=False)
            exact = measured[1][pc.fill_null(positions, 0).to_numpy()]
            # A positive that is no candidate is found by nobody.
            outside = exact > run.gallery.size if run.gallery.is_known else np.isinf(exact)
            self.ranks = np.where(deeper & ~outside, np.maximum(exact, lengths + 1), self.ranks)
        self._margins = self._margin()

    def choose(
        self, kind: Kind, count: int = 6, top: int = 5, group: Callable[[str], str] | None = None
    ) -> list[Example]:
        """The queries of one kind."""
        # - "worst": the first positive stands lowest
        # - "near": a wrong document is first and a positive close behind, the smallest difference in score first
        # - "best": a positive is first, the largest lead over the best wrong document first
        # Ties are broken by query id.
        if kind == "worst":
            chosen, keys = np.flatnonzero(self.judged & (self.ranks > 1)), -self.ranks
        elif kind == "near":
            near = (self.ranks > 1) & np.isfinite(self._margins)
            chosen, keys = np.flatnonzero(self.judged & near), -self._margins
        else:
            chosen, keys = np.flatnonzero(self.judged & (self.ranks == 1)), -self._margins
        ids = self.run.queries.take(pa.array(chosen)).to_numpy(zero_copy_only=False)
        taken, groups = [], set()
        for row in chosen[np.lexsort((ids, keys[chosen]))]:
            query = self.run.queries[int(row)].as_py()
            name = group(query) if group else query
            if name not in groups:
                groups.add(name)
                taken.append(self.example(int(row), top))
            if len(taken) == count:
                break
        return taken

    def example(self, row: int, top: int = 5) -> Example:
        """The query in a row of the run, with its positives and the top of its answer."""
        query = self.run.queries[row].as_py()
        start, stop = int(self.run.offsets[row]), int(self.run.offsets[row + 1])
        ids = self.run.documents.take(pa.array(self.run.indices[start:stop])).to_pylist()
        answers = [
            Answer(document, rank, float(score), bool(right))
            for rank, (document, score, right) in enumerate(
                zip(ids, self.run.scores[start:stop], self.positive[start:stop], strict=True), 1
            )
        ]
        shown = {answer.id: answer for answer in answers if answer.positive}
        position = pc.index(self.qrels.queries, query).as_py()
        first, last = self.qrels.offsets[position], self.qrels.offsets[position + 1]
        positives = self.qrels.documents[first:last].filter(pa.array(self.qrels.grades[first:last] > 0))
        rank = self.ranks[row]
        # With a single positive its exact rank is known even when the run stops before it.
        deeper = int(rank) if np.isfinite(rank) and len(positives) == 1 else None
        right = [shown.get(document) or Answer(document, deeper, None, True) for document in positives.to_pylist()]
        right.sort(key=lambda answer: (answer.rank or np.inf, answer.id))
        return Example(query, int(rank) if np.isfinite(rank) else None, tuple(right), tuple(answers[:top]))

    def _margin(self) -> NDArray[np.float64]:
        """(n,) best positive's score minus best wrong one's; infinite when either is not in the run."""
        rows = np.repeat(np.arange(len(self.run)), np.diff(self.run.offsets))
        scores = self.run.scores.astype(np.float64)
        best = np.full((2, len(self.run)), -np.inf)
        np.maximum.at(best[0], rows[self.positive], scores[self.positive])
        np.maximum.at(best[1], rows[~self.positive], scores[~self.positive])
        both = np.isfinite(best).all(axis=0)
        return np.where(both, np.where(both, best[0], 0) - np.where(both, best[1], 0), np.inf)


def by_image(collection: Collection) -> Callable[[str], str]:
    """The group of a caption: the image it was written for."""
    owner = dict(zip(collection.captions["id"].to_pylist(), collection.captions["image_id"].to_pylist(), strict=True))
    return lambda caption: owner.get(caption, caption)


def _positives(run: Run, qrels: Qrels) -> NDArray[np.bool_]:
    """(m,) which entries of the run are positives."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), np.diff(run.offsets))
    width = max(len(run.documents), 1)
    judged = np.repeat(np.arange(len(qrels), dtype=np.int64), np.diff(qrels.offsets))
    query = pc.fill_null(pc.index_in(qrels.queries, run.queries), -1).to_numpy().astype(np.int64)[judged]
    document = pc.fill_null(pc.index_in(qrels.documents, run.documents), -1).to_numpy().astype(np.int64)
    right = (qrels.grades > 0) & (query >= 0) & (document >= 0)
    return np.isin(rows * width + run.indices, query[right] * width + document[right])
