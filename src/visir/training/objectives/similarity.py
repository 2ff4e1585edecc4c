"""Cosines and the symmetric cross-entropy over them, which several objectives share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.false_negatives import FalseNegatives, false_negative_pairs


def cosines(pairs: VectorPairs) -> Tensor:
    """(n, n) cosines, row the image and column the text; at least in float32, whatever the towers computed in."""
    # Divided by a temperature of 0.05, the last bit of a cosine near 1 in bfloat16 (2⁻⁸) is worth 0.08 in the exponent.
    return products(pairs.anchors, pairs.positives)


def products(queries: Tensor, candidates: Tensor) -> Tensor:
    """(q, c) dot products, at least in float32."""
    with torch.autocast(queries.device.type, enabled=False):
        return precise(queries) @ precise(candidates).T


def precise(vectors: Tensor) -> Tensor:
    """Half precision to float32; everything else as it is."""
    return vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors


def symmetric_cross_entropy(logits: Tensor, anchor_rows: Tensor, false_negatives: FalseNegatives) -> Tensor:
    """The mean of two cross-entropies, along rows and along columns, where the right answer is on the diagonal."""
    if false_negatives == "masked":
        logits = logits.masked_fill(false_negative_pairs(anchor_rows), -torch.inf)
    return (cross_entropy(logits) + cross_entropy(logits.T)) / 2


def cross_entropy(logits: Tensor) -> Tensor:
    """The mean cross-entropy of the rows of (n, n or more) logits, where candidate i is the answer of query i."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


# The temperature of a softmax over cosines, fixed or learnt.

_SHARPEST = math.log(100.0)
"""The largest log(1 / τ) that a learnt temperature may have (CLIP, Radford et al. 2021, section 2.5): beyond it
training is unstable."""


@dataclass(frozen=True)
class OwnScale:
    """What a pretrained model was trained with; None where it has none."""

    temperature: float | None = None  # τ of a softmax, or the inverse of a sigmoid's scale
    bias: float | None = None  # of a sigmoid (SigLIP)

    def temperature_of(self, setting: float | Literal["own"]) -> float:
        """The temperature that a recipe asks for."""
        value = self.temperature if setting == "own" else setting
        assert value is not None, "build_objective has looked"
        return value


class Temperature(nn.Module):
    """Divides by τ > 0, which is kept as log(1 / τ) in float64."""

    # Libraries that speak of a *scale* mean 1 / τ. A learnt τ that has passed 0.01 is put back there before the next
    # batch, as CLIP's authors do; clamping inside the graph instead would cut its gradient off and it could never
    # return. With `bounded=False` it may go on (SigLIP).

    def __init__(self, start: float, *, learnt: bool, bounded: bool = True) -> None:
        super().__init__()
        self.learnt, self.bounded = learnt, bounded
        self.log_scale = nn.Parameter(torch.tensor(-math.log(start), dtype=torch.float64), requires_grad=learnt)

    @property
    def value(self) -> float:
        """τ as it stands now."""
        return math.exp(-float(self.log_scale.detach()))

    @property
    def unread(self) -> float | Tensor:
        """`value`, or on a GPU a tensor of it."""
        return self.value if self.log_scale.device.type == "cpu" else self.log_scale.detach().neg().exp()

    def forward(self, cosines: Tensor) -> Tensor:
        """The logits of a softmax: `cosines` / τ."""
        if self.learnt and self.bounded:
            with torch.no_grad():
                self.log_scale.clamp_(max=_SHARPEST)
        return cosines * self.log_scale.exp().to(cosines.dtype)
