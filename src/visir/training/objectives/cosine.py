"""The negative cosine: images are brought to fixed caption vectors; nothing is contrasted."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.similarity import OwnScale, precise
from visir.training.settings import Settings


class CosineSettings(Settings):
    """1 − cosine between image and caption; see `Cosine`."""

    name: Literal["cosine"] = "cosine"

    def build(self, own: OwnScale) -> Cosine:
        """The loss."""
        return Cosine()


class Cosine(nn.Module):
    """Mean of 1 − cos(z_I, z_C) over the pairs of a batch (latent target decoding, section 5.5).

    For a text side that cannot move, as where the latent target itself is the caption's vector. Were the text side
    trained, both sides could meet in one point and the loss be zero: without negatives nothing holds them apart
    (section 3.2.1). In [0, 2]. "Negative cosine similarity" names both this and −cos; their gradients are equal.
    """

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        return 1 - (precise(pairs.anchors) * precise(pairs.positives)).sum(1).mean()
