"""Several positives: every caption of an image that is in the batch is a right answer."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.candidates import Candidates, candidates
from visir.training.objectives.temperature import OwnScale, Temperature
from visir.training.settings import Settings
from visir.training.sides import Positive

Demand = Literal["every", "any"]


class MultiPositiveSettings(Settings):
    """InfoNCE with all captions of an image as positives; see `MultiPositive`.

    It needs batches with several captions of an image: `optimiser.per_image`.

    Attributes:
        temperature: τ; "own" is the pretrained model's.
        learn_temperature: Go on learning it.
        demand: "every" positive has to be likely, or "any" of them.
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
    """

    name: Literal["multi-positive"] = "multi-positive"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    demand: Demand = "every"
    local_loss: bool = False

    def build(self, own: OwnScale) -> MultiPositive:
        """The loss."""
        return MultiPositive(own.temperature_of(self.temperature), learnt=self.learn_temperature, demand=self.demand)


class MultiPositive(nn.Module):
    """Contrast with several positives (SupCon: Khosla et al. 2020, eq. 2 and 3; between two modalities: UniCL, Yang et
    al. 2022, eq. 2 and 3)."""

    # With P(i) the pairs of the batch whose image is that of pair i, itself among them, and p_ij the softmax over the
    # candidates of image i at temperature τ, p_ij = exp(s_ij / τ) / Σ_k exp(s_ik / τ):
    #     every:  ℓ_i = −(1/|P(i)|) Σ_{j ∈ P(i)} log p_ij          any:  ℓ_i = −log( (1/|P(i)|) Σ_{j ∈ P(i)} p_ij )
    # and for the captions likewise; L is the mean of ℓ over the images plus that over the captions, halved. "every" is
    # SupCon's L_out: smallest where all captions of an image are equally near to it. "any" is its L_in: one caption
    # that is found is nearly enough; its gradient is that of MIL-NCE (Miech et al. 2020, eq. 1). With one caption for
    # an image in the batch both are InfoNCE.
    # An image stands in the batch once for each of its captions there, and counts as often. Hard negatives are further
    # candidates, without those that belong to the query's own image.

    def __init__(self, temperature: float = 0.05, *, learnt: bool = False, demand: Demand = "every") -> None:
        super().__init__()
        self.demand = demand
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        of_anchors, of_positives = candidates(pairs)
        return (self._mean(of_anchors) + self._mean(of_positives)) / 2

    def _mean(self, of: Candidates) -> Tensor:
        right = of.right
        right[:, : of.batch] |= of.siblings[:, : of.batch]
        logits = self.temperature(of.scores).masked_fill(of.left_out("kept"), -torch.inf)
        log_p = torch.log_softmax(logits, dim=1)
        count = right.sum(1).to(log_p.dtype)
        if self.demand == "any":
            return of.mean(count.log() - torch.logsumexp(log_p.masked_fill(~right, -torch.inf), dim=1))
        return -of.mean(log_p.masked_fill(~right, 0.0).sum(1) / count)
