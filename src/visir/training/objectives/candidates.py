"""The candidates of each query of a batch: the other side of the batch, and the hard negatives behind it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.false_negatives import FalseNegatives, false_negative_pairs
from visir.training.objectives.similarity import cosines, precise


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the queries of one direction choose from; the right answer of query i is candidate i.

    Attributes:
        scores: (n, n + h) cosines: the n of the batch, then h hard negatives.
        siblings: (n, n + h) booleans: other positives of the same anchor, in the batch or among the hard negatives.
        batch: n.
    """

    scores: Tensor
    siblings: Tensor
    batch: int

    def left_out(self, false_negatives: FalseNegatives) -> Tensor:
        """(n, n + h) booleans: the candidates that a query does not see.

        A hard negative that belongs to the query's own anchor is right, and never counts as wrong; what is done with
        siblings of the batch is said by `false_negatives`.
        """
        if false_negatives == "masked":
            return self.siblings
        left_out = self.siblings.clone()
        left_out[:, : self.batch] = False
        return left_out


def candidates(pairs: VectorPairs) -> tuple[Candidates, Candidates]:
    """The candidates of the anchors (all positives), and those of the positives (all anchors)."""
    scores = cosines(pairs)
    siblings = false_negative_pairs(pairs.anchor_rows)
    return (
        _with_hard(scores, siblings, pairs.anchors, pairs, pairs.negatives, pairs.negative_rows),
        _with_hard(scores.T, siblings, pairs.positives, pairs, pairs.anchor_negatives, pairs.anchor_negative_rows),
    )


def _with_hard(
    scores: Tensor, siblings: Tensor, queries: Tensor, pairs: VectorPairs, hard: Tensor | None, rows: Tensor | None
) -> Candidates:
    if hard is None or rows is None:
        return Candidates(scores, siblings, len(scores))
    with torch.autocast(queries.device.type, enabled=False):
        more = precise(queries) @ precise(hard).flatten(0, 1).T
    right = pairs.anchor_rows[:, None] == rows.reshape(1, -1)
    return Candidates(torch.cat([scores, more], dim=1), torch.cat([siblings, right], dim=1), len(scores))
