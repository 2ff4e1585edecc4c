"""What an objective sees, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class OwnQueries:
    """The queries of a batch whose losses one of several processes computes."""

    first: int  # the row of the first one
    count: int  # how many there are, one after the other
    processes: int  # how many processes share the batch


@dataclass(frozen=True, eq=False)
class VectorPairs:
    """A batch of pairs as vectors; row i of the anchors belongs to row i of the positives."""

    anchors: Tensor  # (n, d) vectors; of length 1 in the common space of two towers
    positives: Tensor  # (n, d) vectors
    anchor_rows: Tensor  # (n,) integers, equal for positives of one anchor
    targets: Tensor | None = None  # (n, t) latent targets of the positives, or None
    tokens: Tensor | None = None  # (n, L) token ids of the positives, 0 is padding, or None
    classes: Tensor | None = None  # (n,) integers, what the positives are beyond the anchor they belong to, or None
    rows: Tensor | None = None  # (n,) integers, which pairs of the split they are, or None
    # (n, h, d) vectors of hard negatives for the anchors, on the side of the positives, or None.
    negatives: Tensor | None = None
    negative_rows: Tensor | None = None  # (n, h) integers, the anchors to which they belong; -1 is none
    # (n, h, d) vectors of hard negatives for the positives, on the side of the anchors, or None.
    anchor_negatives: Tensor | None = None
    anchor_negative_rows: Tensor | None = None  # (n, h) integers, which anchors they are
    # Those whose losses are wanted, among all n candidates. The loss is then the sum of theirs times the number of
    # processes, divided by n, so that its mean over the processes is that of the batch. None: all.
    queries: OwnQueries | None = None

    def split(self) -> VectorPairs:
        """The same, from (n, (1 + h) · d) vectors of a side that has hard negatives: those stand behind each pair's."""
        anchors, anchor_negatives = _own_and_hard(self.anchors, self.anchor_negative_rows)
        positives, negatives = _own_and_hard(self.positives, self.negative_rows)
        return replace(
            self, anchors=anchors, positives=positives, negatives=negatives, anchor_negatives=anchor_negatives
        )


def _own_and_hard(vectors: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor | None]:
    if rows is None:
        return vectors, None
    own, *hard = vectors.split(vectors.shape[1] // (1 + rows.shape[1]), dim=1)
    return own, torch.stack(hard, dim=1)


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a batch."""

    total: Tensor  # what is made small, a scalar with a graph
    # Its terms, detached, as they enter the log: "contrastive", and under the name of each auxiliary ("ltd", "itd") its
    # reconstruction loss.
    parts: Mapping[str, Tensor]
