"""The product side of the model: the modalities of a product are joined and brought into the common space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs, Tower
from visir.encoders.towers.head import Head, HeadSpec
from visir.products.model.recipe import Part

_SCORING = 64
"""Width of the layer that scores attributes."""


@dataclass(frozen=True)
class ProductSpec:
    """The shape of a `ProductTower`."""

    widths: Mapping[Part, int]  # modality to the width of its vectors, in the order in which they are joined
    head: HeadSpec  # over the joined vectors; its `inputs` are the sum of the widths
    attributes: Literal["mean", "attention"] = "mean"  # as in `ProductSide`
    scaling: Literal["unit", "none"] = "unit"  # as in `ProductSide`
    absent: Literal["zero", "learnt"] = "zero"  # as in `ProductSide`

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProductSpec:
        """From what `to_dict` gave, read back from JSON."""
        return cls(**{**values, "head": HeadSpec.from_dict(values["head"])})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class ProductTower(Tower):
    """p = g_p(concat(h_i, h_t, h_a)) (eq. 7.6), for any of the three."""

    # Takes a batch as `ProductSource` gives it: "image" and "title" (n, d), "attributes" (n, d) means or (n, L, d) with
    # "filled" (n, L) booleans, and "present" (n, modalities) booleans.
    # A modality that a product lacks is a zero vector after the scaling: it has no direction, and every other vector
    # has one. "learnt" puts a trained vector there, which begins as zero. The other common way, leaving such products
    # out of training, makes a model that has never seen the products that it will be tested on.

    def __init__(self, spec: ProductSpec) -> None:
        super().__init__(None, Head(spec.head))
        self.spec = spec
        learnt = spec.widths if spec.absent == "learnt" else {}
        self.absent = nn.ParameterDict({name: nn.Parameter(torch.zeros(width)) for name, width in learnt.items()})
        attends = spec.attributes == "attention" and "attributes" in spec.widths
        self.attention = Attention(spec.widths["attributes"]) if attends else None

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, dimension) vectors of a batch; not normalised."""
        assert not isinstance(inputs, Tensor), "products come by modality"
        parts = []
        for number, name in enumerate(self.spec.widths):
            part, present = inputs[name], inputs["present"][:, number, None]
            if name == "attributes" and self.attention is not None:
                part = self.attention(part, inputs["filled"])
            if self.spec.scaling == "unit":
                part = functional.normalize(part, dim=-1)
            absent = self.absent[name] if name in self.absent else torch.zeros_like(part[:1])
            parts.append(torch.where(present, part, absent))
        vectors: Tensor = self.head(torch.cat(parts, dim=1))
        return vectors


class Attention(nn.Module):
    """h_a = Σ_k α_k a_k with α the softmax of w · tanh(V a_k + b) over a product's own attributes."""

    # As in Bahdanau et al. 2015, but without a query: the product must have one vector for all categories. w begins as
    # zero, so training begins from the mean of eq. 7.5 and leaves it where that helps.

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, _SCORING)
        self.score = nn.Linear(_SCORING, 1, bias=False)
        nn.init.zeros_(self.score.weight)

    def forward(self, attributes: Tensor, filled: Tensor) -> Tensor:
        """(n, d) from (n, L, d) attributes, of which those count that are `filled` (n, L); zero where none is."""
        scores = self.score(torch.tanh(self.hidden(attributes)))[..., 0].masked_fill(~filled, -torch.inf)
        none = ~filled.any(dim=1, keepdim=True)
        shares = scores.masked_fill(none, 0.0).softmax(dim=1) * filled
        return torch.einsum("nl,nld->nd", shares.to(attributes.dtype), attributes)
