"""FILIP: every word should find its place in the picture, and every place its word."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.best_matches import best_matches
from visir.training.objectives.false_negatives import FalseNegatives, false_negative_pairs
from visir.training.objectives.similarity import precise
from visir.training.objectives.temperature import OwnScale, Temperature
from visir.training.settings import Settings
from visir.training.sides import Positive


class FILIPSettings(Settings):
    """InfoNCE over late interaction, for sides that have several vectors for each item; see `FILIP`.

    Attributes:
        temperature: τ.
        learn_temperature: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
    """

    name: Literal["filip"] = "filip"
    temperature: Positive = 0.05
    learn_temperature: bool = True
    false_negatives: FalseNegatives = "masked"

    def build(self, own: OwnScale) -> FILIP:
        """The loss."""
        return FILIP(self.temperature, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class FILIP(nn.Module):
    """Symmetric cross-entropy over fine-grained similarities (FILIP, Yao et al. 2021, equations 1 to 5)."""

    # With unit vectors x_1 … x_t of a picture I and y_1 … y_t' of a caption C:
    #     s(I, C) = mean_k max_r x_k · y_r        s(C, I) = mean_r max_k x_k · y_r
    #     L = ½ · mean_i −log( exp(s(I_i, C_i) / τ) / Σ_j exp(s(I_i, C_j) / τ) )
    #       + ½ · mean_i −log( exp(s(C_i, I_i) / τ) / Σ_j exp(s(C_i, I_j) / τ) )
    # The two similarities differ, unlike those of single vectors: each direction has its own matrix. Padding is neither
    # among the k and r of a maximum, nor counted by a mean.
    # Readings that the paper leaves open, and what is taken here: the *mean* is its equations 3 and 4; ColBERT's MaxSim
    # takes the sum, by which the search of a checkpoint ranks: the same order, because all candidates of a query are
    # summed over the query's vectors. All vectors take part; the paper keeps the quarter that matches best within a
    # batch, to save memory. τ is learnt from 0.05 (the paper: from 0.07, and held above 0.01, as here).

    def __init__(
        self, temperature: float = 0.05, *, learnt: bool = True, false_negatives: FalseNegatives = "masked"
    ) -> None:
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch of (n, t, d) vectors with zeros as padding, a scalar."""
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            matches = best_matches(precise(pairs.anchors), precise(pairs.positives))
        own = torch.arange(len(pairs.anchors), device=pairs.anchors.device)
        left_out = false_negative_pairs(pairs.anchor_rows) if self.false_negatives == "masked" else None
        losses = []
        for scores in matches:
            logits = self.temperature(scores)
            if left_out is not None:
                logits = logits.masked_fill(left_out, -torch.inf)
            losses.append(functional.cross_entropy(logits, own))
        return (losses[0] + losses[1]) / 2
