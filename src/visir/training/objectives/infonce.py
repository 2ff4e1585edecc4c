"""InfoNCE: a caption should find its image among the batch's images, and the image its caption among the captions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.candidates import Candidates, candidates
from visir.training.objectives.false_negatives import FalseNegatives
from visir.training.objectives.similarity import cross_entropy
from visir.training.objectives.temperature import OwnScale, Temperature
from visir.training.settings import Settings
from visir.training.sides import Positive


class InfoNCESettings(Settings):
    """Softmax over the negatives of a batch; see `InfoNCE`.

    Attributes:
        temperature: τ; "own" is the pretrained model's (CLIP comes with a learnt one).
        learn_temperature: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
    """

    name: Literal["infonce"] = "infonce"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    false_negatives: FalseNegatives = "masked"
    local_loss: bool = False

    def build(self, own: OwnScale) -> InfoNCE:
        """The loss."""
        start = own.temperature_of(self.temperature)
        return InfoNCE(start, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class InfoNCE(nn.Module):
    """Symmetric cross-entropy over the negatives of a batch (latent target decoding, eq. 1; thesis, appendix 4.E.1).

    With unit vectors z_I (n, d) and z_C (n, d), row i of one matching row i of the other, and S = z_I z_Cᵀ / τ:

        L = ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ij )  +  ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ji )

    C(i) is i itself and its negatives: the whole batch with `false_negatives="kept"`, as in the papers; without the
    other captions of the same image with "masked" (`visir.training.objectives.false_negatives.FalseNegatives`).

    Hard negatives, where a batch has them, are further candidates of every query: sums over j go over them too.

    `temperature` is τ > 0: LTD uses 0.05 fixed, VSE++ with InfoNCE 0.07 learnt, CLIP learns it from 0.07 (the released
    weights stand at 0.01). Libraries that average over one direction only report half of another loss. The thesis
    prints eq. 4.E.1 without the minus sign; it is meant to be made small, as here.
    """

    def __init__(
        self, temperature: float = 0.05, *, learnt: bool = False, false_negatives: FalseNegatives = "masked"
    ) -> None:
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        losses = [self._mean(of) for of in candidates(pairs)]
        return (losses[0] + losses[1]) / 2

    def _mean(self, of: Candidates) -> Tensor:
        logits = self.temperature(of.scores).masked_fill(of.left_out(self.false_negatives), -torch.inf)
        if of.queries is None:
            return cross_entropy(logits)
        own = torch.arange(of.first, of.first + len(logits), device=logits.device)
        return of.mean(functional.cross_entropy(logits, own, reduction="none"))
