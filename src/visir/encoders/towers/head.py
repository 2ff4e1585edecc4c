"""Heads: small networks that bring the features of a backbone, or of a frozen encoder, into the common space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.errors import EncoderError

_BLOCK = 4096
_ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}


@dataclass(frozen=True)
class HeadSpec:
    """The shape of one head.

    Attributes:
        inputs, outputs: Dimensions of the features and of the common space.
        identity: The features are the vectors, as they are; everything below must then be left at its default.
        hidden: Widths of the hidden layers; () is a linear head, as in VSE++.
        activation, layer_norm: What follows each hidden layer (the norm comes first). LTD's baseline has one hidden
            layer with a ReLU and no norm.
        shortcut: A linear map from the inputs straight to the outputs, added to what the hidden layers give: the head
            begins as a linear one and learns what is left. Without hidden layers it would be the same map twice, and is
            refused.
        scaling: What happens to the features first: "unit" divides by their length, "standard" subtracts the mean and
            divides by the standard deviation of the training vectors (`Head.fit_scaling`; kept with the weights),
            "none".
        dropout: On the inputs of every layer, in training only.
        batch_norm: Batch normalisation of the outputs, as LTD has it under the triplet loss.
    """

    inputs: int
    outputs: int
    identity: bool = False
    hidden: tuple[int, ...] = ()
    activation: Literal["gelu", "relu"] = "gelu"
    layer_norm: bool = True
    shortcut: bool = False
    scaling: Literal["unit", "standard", "none"] = "none"
    dropout: float = 0.0
    batch_norm: bool = False

    def __post_init__(self) -> None:
        widths = (self.inputs, self.outputs, *self.hidden)
        if min(widths) < 1:
            raise EncoderError(f"a head cannot be {' → '.join(map(str, widths))} wide.", hint="at least 1 everywhere")
        if self.shortcut and not self.hidden:
            raise EncoderError("a head without hidden layers has no use for a shortcut.", hint="leave one of them out")
        if not self.identity:
            return
        if self.inputs != self.outputs:
            raise EncoderError(
                f"an identity head gives what it takes: {self.inputs} dimensions, not {self.outputs}.",
                hint=f"set the dimension to {self.inputs}, or give the head a layer (identity = false)",
            )
        if replace(self, identity=False) != HeadSpec(self.inputs, self.outputs):
            raise EncoderError("an identity head has no other settings.", hint="leave them out, or identity")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> HeadSpec:
        """From what `to_dict` gave, read back from JSON."""
        return cls(**{**values, "hidden": tuple(values["hidden"])})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Head(nn.Module):
    """A linear map, or an MLP: (n, inputs) to (n, outputs). The result is not normalised."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        if spec.scaling == "standard":
            self.register_buffer("mean", torch.zeros(spec.inputs))
            self.register_buffer("deviation", torch.ones(spec.inputs))
        self.dropout = nn.Dropout(spec.dropout)
        self.layers = nn.Sequential() if spec.identity else _layers(spec)
        self.shortcut = nn.Linear(spec.inputs, spec.outputs) if spec.shortcut else None
        self.norm = nn.BatchNorm1d(spec.outputs) if spec.batch_norm else None

    def fit_scaling(self, *views: NDArray[Any]) -> None:
        """Take mean and standard deviation from the training vectors, for scaling "standard".

        `views` are (n, inputs) arrays, taken together as if they lay under each other. They are read in blocks, so they
        may be memory-mapped and larger than the memory.

        Any other scaling has nothing to fit. A dimension whose deviation is below the root mean square of all
        deviations is divided by that instead. Full standardising would blow up what hardly ever varies (a rare word's
        place in a bag of words) into the loudest input of all, and divide a constant by zero.
        """
        if self.spec.scaling != "standard":
            return
        mean, deviation = _spread(views)
        usual = float(np.sqrt(np.mean(deviation**2)))
        deviation = np.maximum(deviation, usual) if usual > 0 else np.ones_like(deviation)
        self.mean.copy_(torch.from_numpy(mean))
        self.deviation.copy_(torch.from_numpy(deviation))

    def forward(self, vectors: Tensor, owners: Tensor | None = None) -> Tensor:
        """(n, inputs) features to (n, outputs). A zero vector (an empty text) stays zero under "unit".

        Args:
            vectors: The features.
            owners: (n,) the item, from 0, that each row is a part of, where items have several: what dropout leaves out
                of the inputs is then the same for all rows of an item.
        """
        if self.spec.scaling == "unit":
            vectors = nn.functional.normalize(vectors, dim=-1)
        elif self.spec.scaling == "standard":
            vectors = (vectors - self.mean) / self.deviation
        vectors = self.dropout(vectors) if owners is None else self._dropped(vectors, owners)
        result: Tensor = self.layers(vectors)
        if self.shortcut is not None:
            result = result + self.shortcut(vectors)
        return result if self.norm is None else self.norm(result)

    def _dropped(self, vectors: Tensor, owners: Tensor) -> Tensor:
        """The features without what dropout leaves out of those of each item."""
        if not self.training or self.spec.dropout == 0 or not len(vectors):
            return vectors
        drawn: Tensor = self.dropout(vectors.new_ones(int(owners[-1]) + 1, vectors.shape[1]))
        return vectors * drawn[owners]


def _spread(views: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (of the population) of each column, in float64."""
    # Two passes: sums of squares, from which one would do, lose the deviation of a column that is far from zero.

    def mean_of(number: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        total = np.zeros(views[0].shape[1])
        for view in views:
            for start in range(0, len(view), _BLOCK):
                total += number(view[start : start + _BLOCK].astype(np.float64)).sum(axis=0)
        return total / sum(map(len, views))

    mean = mean_of(lambda block: block)
    return mean, np.sqrt(mean_of(lambda block: (block - mean) ** 2))


def _layers(spec: HeadSpec) -> nn.Sequential:
    widths = [spec.inputs, *spec.hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers.append(nn.Linear(before, after))
        if spec.layer_norm:
            layers.append(nn.LayerNorm(after))
        layers += [_ACTIVATIONS[spec.activation](), nn.Dropout(spec.dropout)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], spec.outputs))
