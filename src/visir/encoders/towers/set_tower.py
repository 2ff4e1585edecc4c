"""A head over several vectors for each item: each is brought into the common space by itself (late interaction)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, Tower
from visir.encoders.towers.head import Head

VECTORS, PRESENT, WHOLE = "vectors", "present", "whole"
"""Names of the inputs of a `SetTower`: the (m, inputs) vectors of all items, one after another; (n, t) booleans, row i
beginning with as many True as item i has vectors; and, for a tower that knows wholes, (n, whole inputs)."""
SHARE = 0.3
"""How much of a vector's own part is added to that of the whole, at the beginning; it is learnt."""


class SetTower(Tower):
    """A head over the sets of vectors that a frozen encoder of form "multi-vector" gave."""

    # With a second head, `whole`, an item also has one vector of all of it, and each of its vectors becomes
    #     share · head(its own features) + whole(those of the item)        brought to length 1
    # In training, what dropout leaves out of the inputs is the same for all vectors of an item: a feature that is
    # missing at one place and there at the next is hardly missing.

    def __init__(self, head: Head, whole: Head | None = None) -> None:
        super().__init__(None, head)
        self.whole = whole
        self.share = None if whole is None else nn.Parameter(torch.tensor(SHARE))

    @property
    def inputs(self) -> int:
        """The length of the vectors of the frozen encoder: of a part, and of the whole behind it."""
        return self.head.spec.inputs + (0 if self.whole is None else self.whole.spec.inputs)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, t, dimension) vectors of length 1, rows of zeros after the last one of an item."""
        assert not isinstance(inputs, Tensor), "sets of vectors come with the places that they take"
        present = inputs[PRESENT]
        owners = torch.repeat_interleave(torch.arange(len(present), device=present.device), present.sum(1))
        vectors = self.head(inputs[VECTORS], owners)
        if self.whole is not None:
            vectors = self.share * vectors + self.whole(inputs[WHOLE])[owners]
        vectors = functional.normalize(vectors, dim=-1)
        sets = vectors.new_zeros(*present.shape, vectors.shape[-1])
        sets[present] = vectors
        return sets

    def project(self, vectors: Tensor) -> Tensor:
        """(n, dimension) vectors of length 1 from those of a frozen encoder."""
        parts = self.head(vectors[:, : self.head.spec.inputs])
        if self.whole is not None:
            parts = self.share * parts + self.whole(vectors[:, self.head.spec.inputs :])
        return functional.normalize(parts, dim=-1)
