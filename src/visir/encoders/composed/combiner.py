"""The combiner: a small network that makes one vector of the vectors of a text and an image."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, Tower
from visir.encoders.towers.head import Head, HeadSpec


@dataclass(frozen=True)
class CombinerSpec:
    """The shape of a combiner."""

    image: HeadSpec  # the head over the vectors of images; those of the documents go through it too
    text: HeadSpec  # the head over the vectors of texts; it ends in the same space
    projection: int  # the width to which each of the two is projected
    hidden: int  # the width of the hidden layers over both
    dropout: float  # in training

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CombinerSpec:
        """From what `to_dict` gave, read back from JSON."""
        heads = {side: HeadSpec.from_dict(values[side]) for side in ("image", "text")}
        return cls(**{**values, **heads})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Combiner(Tower):
    """The combiner of Baldrati et al., "Effective conditioned and composed image retrieval combining CLIP-based
    features" (CVPR 2022), section 3.2."""

    # With unit vectors t of the text and v of the image, in the space of the documents, and p = [P_t t; P_v v], ReLU
    # after each projection:
    #     λ = sigmoid(G₂ relu(G₁ p)),   vector = O relu(H p) + λ t + (1 − λ) v
    # So it begins near a weighted sum, with a weight of its own for each query, and learns what to add. Differences: t
    # and v have length 1 here, which makes it independent of the lengths that a model gives; and where texts and images
    # are of two spaces, heads bring them into one.
    # Takes a batch as {"text": (n, d_t), "image": (n, d_v)}. `head` is the head of images, which is the tower of the
    # documents.

    def __init__(self, spec: CombinerSpec) -> None:
        super().__init__(None, Head(spec.image))
        self.spec = spec
        self.text_head = Head(spec.text)
        width, joined = spec.image.outputs, 2 * spec.projection
        self.text_projection = nn.Linear(width, spec.projection)
        self.image_projection = nn.Linear(width, spec.projection)
        self.hidden = nn.Linear(joined, spec.hidden)
        self.output = nn.Linear(spec.hidden, width)
        self.gate = nn.Sequential(
            nn.Linear(joined, spec.hidden), nn.ReLU(), nn.Dropout(spec.dropout), nn.Linear(spec.hidden, 1), nn.Sigmoid()
        )
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) vectors of n texts with images; not normalised."""
        assert not isinstance(inputs, Tensor), "a text and an image come by name"
        text = functional.normalize(self.text_head(inputs["text"]), dim=-1)
        image = functional.normalize(self.head(inputs["image"]), dim=-1)
        both = [
            self.dropout(functional.relu(projection(side)))
            for projection, side in ((self.text_projection, text), (self.image_projection, image))
        ]
        joined = torch.cat(both, dim=-1)
        share = self.gate(joined)
        added = self.output(self.dropout(functional.relu(self.hidden(joined))))
        vectors: Tensor = added + share * text + (1 - share) * image
        return vectors
