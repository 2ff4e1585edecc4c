"""The sigmoid loss: every image and every caption of a batch are asked by themselves whether they belong together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.candidates import Candidates, candidates
from visir.training.objectives.temperature import OwnScale, Temperature
from visir.training.settings import Settings
from visir.training.sides import Positive

Siblings = Literal["masked", "kept", "positives"]


class SigmoidSettings(Settings):
    """A yes or no for every pair of a batch; see `Sigmoid`.

    Attributes:
        temperature: 1 / t; "own" is the pretrained model's.
        learn_temperature: Go on learning it.
        bias: b; "own" is the pretrained model's (SigLIP and its kin have one).
        learn_bias: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), "kept" as negatives, or
            "positives".
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
    """

    name: Literal["sigmoid"] = "sigmoid"
    temperature: Positive | Literal["own"] = 0.1
    learn_temperature: bool = True
    bias: float | Literal["own"] = -10.0
    learn_bias: bool = True
    false_negatives: Siblings = "masked"
    local_loss: bool = False

    def build(self, own: OwnScale) -> Sigmoid:
        """The loss."""
        bias = own.bias if self.bias == "own" else self.bias
        assert bias is not None, "build_objective has looked"
        return Sigmoid(
            own.temperature_of(self.temperature),
            bias,
            learnt=(self.learn_temperature, self.learn_bias),
            false_negatives=self.false_negatives,
        )


class Sigmoid(nn.Module):
    """The sigmoid loss (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training", eq. 1 and algorithm 1)."""

    # With s the cosines, t = exp(t') and b learnt, and z_ij = 1 where image i and caption j belong together, else −1:
    #     L = −(1/n) Σ_i Σ_j log σ( z_ij (t · s_ij + b) )
    # The paper begins with t' = log 10 and b = −10, so that the many negatives do not outweigh the positives in the
    # first steps; t has no upper bound. There is no softmax: the loss of a pair does not depend on the others, one
    # number for both directions. The sum is over all pairs and divided by n, not by n², so the loss grows with the
    # batch.
    # Captions of the same image are "masked", "kept" as negatives (the paper's data has one caption for an image) or
    # "positives". Hard negatives are further pairs with z = −1.

    def __init__(
        self,
        temperature: float = 0.1,
        bias: float = -10.0,
        *,
        learnt: tuple[bool, bool] = (True, True),
        false_negatives: Siblings = "masked",
    ) -> None:
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt[0], bounded=False)
        self.bias = nn.Parameter(torch.tensor(bias, dtype=torch.float64), requires_grad=learnt[1])

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        of_anchors, of_positives = candidates(pairs)
        # The pairs of the batch are the same in both directions; only the hard negatives differ.
        total = self._sum(of_anchors, 0) + self._sum(of_positives, of_anchors.batch)
        return of_anchors.share(total)

    def _sum(self, of: Candidates, first: int) -> Tensor:
        """−Σ log σ over the candidates from `first` on."""
        if first == of.scores.shape[1]:
            return of.scores.new_zeros(())
        right = of.right
        siblings = of.siblings.clone()
        siblings[:, of.batch :] = False
        if self.false_negatives == "positives":
            right |= siblings
        left_out = of.left_out("masked" if self.false_negatives == "masked" else "kept")
        logits = self.temperature(of.scores) + self.bias.to(of.scores.dtype)
        losses = functional.softplus(torch.where(right, -logits, logits)).masked_fill(left_out, 0.0)
        return losses[:, first:].sum()
