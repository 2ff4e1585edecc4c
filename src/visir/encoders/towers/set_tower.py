"""A head over several vectors for each item: each is brought into the common space by itself (late interaction)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from visir.encoders.towers.base import Inputs, Tower
from visir.encoders.towers.head import Head

VECTORS, PRESENT = "vectors", "present"
"""Names of the inputs of a `SetTower`: the (m, inputs) vectors of all items, one after another, and (n, t) booleans,
row i beginning with as many True as item i has vectors."""


class SetTower(Tower):
    """A head over the sets of vectors that a frozen encoder of form "multi-vector" gave.

    In training, what dropout leaves out of the inputs is the same for all vectors of an item: a feature that is missing
    at one place and there at the next is hardly missing.
    """

    def __init__(self, head: Head) -> None:
        super().__init__(None, head)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, t, dimension) vectors of length 1, rows of zeros after the last one of an item."""
        assert not isinstance(inputs, Tensor), "sets of vectors come with the places that they take"
        present = inputs[PRESENT]
        owners = torch.repeat_interleave(torch.arange(len(present), device=present.device), present.sum(1))
        vectors = functional.normalize(self.head(inputs[VECTORS], owners), dim=-1)
        sets = vectors.new_zeros(*present.shape, vectors.shape[-1])
        sets[present] = vectors
        return sets

    def project(self, vectors: Tensor) -> Tensor:
        """(n, dimension) vectors of length 1 from those of a frozen encoder."""
        return functional.normalize(self.head(vectors), dim=-1)
