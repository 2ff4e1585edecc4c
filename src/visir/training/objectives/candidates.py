"""The candidates of each query of a batch: the other side of the batch, and the hard negatives behind it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from visir.training.objectives.base import OwnQueries, VectorPairs
from visir.training.objectives.false_negatives import FalseNegatives
from visir.training.objectives.similarity import products


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the queries of one direction choose from."""

    scores: Tensor  # (q, n + h) cosines: with the n of the batch, then with h hard negatives
    # (q, n + h) booleans: other positives of the same anchor, in the batch or among the hard negatives.
    siblings: Tensor
    batch: int  # n
    queries: OwnQueries | None = None  # which rows of the batch the q queries are; None: all n

    @property
    def first(self) -> int:
        """The candidate that is the right answer of query 0; the next is that of query 1, and so on."""
        return 0 if self.queries is None else self.queries.first

    @property
    def right(self) -> Tensor:
        """(q, n + h) booleans: the right answer of each query."""
        right = torch.zeros_like(self.siblings)
        _diagonal(right, self.first).fill_(True)
        return right

    @property
    def of_right(self) -> Tensor:
        """(q,) scores of the right answers."""
        return _diagonal(self.scores, self.first)

    def mean(self, losses: Tensor) -> Tensor:
        """The mean of (q,) losses; of a part of the queries, such that the mean over the processes is that of all."""
        return losses.mean() if self.queries is None else self.share(losses.sum())

    def share(self, total: Tensor) -> Tensor:
        """A sum over the queries, divided by n; of a part of them, such that the mean over the processes is that."""
        return total / self.batch * (1 if self.queries is None else self.queries.processes)

    def left_out(self, false_negatives: FalseNegatives) -> Tensor:
        """(q, n + h) booleans: the candidates that a query does not see."""
        # A hard negative that belongs to the query's own anchor is right, and never counts as wrong; what is done with
        # siblings of the batch is said by `false_negatives`.
        if false_negatives == "masked":
            return self.siblings
        left_out = self.siblings.clone()
        left_out[:, : self.batch] = False
        return left_out


def candidates(pairs: VectorPairs) -> tuple[Candidates, Candidates]:
    """The candidates of the anchors (all positives), and those of the positives (all anchors)."""
    of_anchors = _of_side(pairs, pairs.anchors, pairs.positives, pairs.negatives, pairs.negative_rows)
    # All queries: the same products in both directions.
    scores = of_anchors.scores[:, : of_anchors.batch].T if pairs.queries is None else None
    hard, rows = pairs.anchor_negatives, pairs.anchor_negative_rows
    return of_anchors, _of_side(pairs, pairs.positives, pairs.anchors, hard, rows, scores)


def _of_side(
    pairs: VectorPairs,
    queries: Tensor,
    others: Tensor,
    hard: Tensor | None,
    hard_rows: Tensor | None,
    scores: Tensor | None = None,
) -> Candidates:
    """The candidates of one side's queries: the other side, and hard negatives."""
    own, rows = pairs.queries, pairs.anchor_rows
    if own is not None:
        span = slice(own.first, own.first + own.count)
        queries, rows = queries[span], rows[span]
    scores = products(queries, others) if scores is None else scores
    siblings = rows[:, None] == pairs.anchor_rows[None, :]
    _diagonal(siblings, 0 if own is None else own.first).fill_(False)
    if hard is None or hard_rows is None:
        return Candidates(scores, siblings, len(others), own)
    more, right = products(queries, hard.flatten(0, 1)), rows[:, None] == hard_rows.reshape(1, -1)
    scores, siblings = torch.cat([scores, more], dim=1), torch.cat([siblings, right], dim=1)
    return Candidates(scores, siblings, len(others), own)


def _diagonal(matrix: Tensor, first: int) -> Tensor:
    """(q,) of each row the element of its own column, as a view: column `first` of row 0, and so on."""
    return matrix[:, first : first + len(matrix)].diagonal()
