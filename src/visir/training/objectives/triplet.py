"""The triplet loss: a positive should be more similar than a negative, by a margin."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.candidates import candidates
from visir.training.objectives.false_negatives import FalseNegatives
from visir.training.objectives.temperature import OwnScale
from visir.training.settings import Settings
from visir.training.sides import Positive

Negatives = Literal["hardest", "sum"]
Reduction = Literal["mean", "sum"]


class TripletSettings(Settings):
    """Margin hinge over the negatives of a batch; see `Triplet`.

    Attributes:
        margin: By how much, in cosines.
        negatives: The "hardest" of the batch (VSE++), or the "sum" over all of them.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
        reduction: The "mean" over the queries of both directions, or their "sum" (the papers' code).
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
    """

    name: Literal["triplet"] = "triplet"
    margin: Positive = 0.2
    negatives: Negatives = "hardest"
    false_negatives: FalseNegatives = "masked"
    reduction: Reduction = "mean"
    local_loss: bool = False

    def build(self, own: OwnScale) -> Triplet:
        """The loss."""
        return Triplet(
            self.margin, negatives=self.negatives, false_negatives=self.false_negatives, reduction=self.reduction
        )


class Triplet(nn.Module):
    """Hinge on the margin between a positive and its negatives, in both directions (VSE++, Faghri et al. 2018, eq. 5).

    With s the cosines, α the margin and [x]₊ = max(0, x), for the images as queries

        hardest:  ℓ_i = max_{j ≠ i} [α + s_ij − s_ii]₊          sum:  ℓ_i = Σ_{j ≠ i} [α + s_ij − s_ii]₊

    and for the captions likewise with s_ji; j runs over the whole batch with `false_negatives="kept"`, as in the
    papers, and not over other captions of the same image with "masked"; and over hard negatives, where a batch has
    them. A query without negatives costs nothing.
    Negatives that are equally hard share the gradient.

    `reduction="mean"` (default): the mean over the 2 n queries, so that i2t and t2i are averaged as in every other
    objective here, and the loss does not depend on the batch size. `reduction="sum"` is what the released code of VSE++
    and of LTD computes: 2 n times as much, 256 times in a batch of 128. Alone, Adam-like optimisers do not feel the
    factor, but a clipping threshold does (a sum's gradient is nearly always longer than 2), and so does everything that
    is added: β and λ ≤ 100 weigh a reconstruction loss 2 n times less beside a sum. Ask for it to reproduce LTD with
    the triplet loss.

    The hardest negative gives each query a gradient from one pair only. Training can settle where all vectors meet in
    one point and the mean loss is α; LTD's setting with this loss has a batch norm after the projection.
    """

    def __init__(
        self,
        margin: float = 0.2,
        *,
        negatives: Negatives = "hardest",
        false_negatives: FalseNegatives = "masked",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.margin = margin
        self.negatives = negatives
        self.false_negatives = false_negatives
        self.reduction = reduction

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        costs = []
        for of in candidates(pairs):  # a row per image, then a row per caption
            apart = of.left_out(self.false_negatives) | of.right
            costs.append((self.margin + of.scores - of.of_right[:, None]).clamp(min=0).masked_fill(apart, 0.0))
        of_query = torch.cat([cost.amax(1) if self.negatives == "hardest" else cost.sum(1) for cost in costs])
        if pairs.queries is not None:
            total = of_query.sum() * pairs.queries.processes
            return total / (2 * len(pairs.anchors)) if self.reduction == "mean" else total
        return of_query.mean() if self.reduction == "mean" else of_query.sum()
