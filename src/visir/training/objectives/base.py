"""What an objective sees, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class VectorPairs:
    """A batch of pairs as vectors; row i of the anchors belongs to row i of the positives.

    Attributes:
        anchors: (n, d) vectors; of length 1 in the common space of two towers.
        positives: (n, d) vectors.
        anchor_rows: (n,) integers, equal for positives of one anchor.
        targets: (n, t) latent targets of the positives, or None.
        tokens: (n, L) token ids of the positives, 0 is padding, or None.
        classes: (n,) integers, what the positives are beyond the anchor they belong to, or None.
        rows: (n,) integers, which pairs of the split they are, or None.
    """

    anchors: Tensor
    positives: Tensor
    anchor_rows: Tensor
    targets: Tensor | None = None
    tokens: Tensor | None = None
    classes: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a batch.

    Attributes:
        total: What is made small, a scalar with a graph.
        parts: Its terms, detached, as they enter the log: "contrastive", and under the name of each auxiliary ("ltd",
            "itd") its reconstruction loss.
    """

    total: Tensor
    parts: Mapping[str, Tensor]
