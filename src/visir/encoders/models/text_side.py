"""The texts of an encoder as inputs, network and vectors: what `text_network_files` makes a text network of.

An encoder has one where it has a method `text_side`; a tower where its `text_inputs` gives any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from visir.encoders.base import Encoder
from visir.encoders.models.text_inputs import JoinedInputs, TextInputs
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone

_KNOWN = ("torch", "transformers", "sentence_transformers", "open_clip", "visir")
"""Packages whose modules may be traced. Code that comes with a model runs by its user's word alone, also where it could
be left out."""


@dataclass(frozen=True)
class TextSide:
    """Texts on their way to vectors."""

    network: nn.Module  # takes what `inputs` gives, by name, and returns the (n, d) vectors
    reader: TextInputs  # makes the inputs of texts without PyTorch
    # Makes them as the encoder does, on the CPU; `reader` has to give the same.
    inputs: Callable[[Sequence[str]], Mapping[str, Tensor]]

    def then(self, module: nn.Module) -> TextSide:
        """The same, with a module behind the network."""
        return replace(self, network=nn.Sequential(self.network, module))


@runtime_checkable
class HasTextSide(Protocol):
    """An encoder whose texts are inputs of a network."""

    def text_side(self) -> TextSide | None:
        """The way of a text; None where this one cannot be parted into inputs and network."""


def text_side_of(encoder: Encoder) -> TextSide | None:
    """The text side of an encoder by PyTorch on the CPU in float32; None where it has none, or runs code of its own."""
    if not isinstance(encoder, HasTextSide) or "text" not in encoder.modalities or encoder.form != "dense":
        return None
    if encoder.cross_encoder is not None or encoder.card.dtype != "float32" or encoder.card.code_revisions:
        return None
    side = encoder.text_side()
    if side is None or any(type(part).__module__.partition(".")[0] not in _KNOWN for part in side.network.modules()):
        return None
    weights = list(side.network.parameters())
    return side if all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in weights) else None


def side_of_tower(tower: PretrainedBackbone) -> TextSide | None:
    """The text side of a text tower; None where it has no `text_inputs`."""
    reader = tower.text_inputs()
    if reader is None:
        return None
    [name, *more] = reader.names

    def inputs(texts: Sequence[str]) -> Mapping[str, Tensor]:
        batch = tower.collate(tower.prepare_all(texts))
        return {name: batch} if isinstance(batch, Tensor) else batch

    takes_tensor = not more and isinstance(tower.collate(tower.prepare_all(["a"])), Tensor)
    return TextSide(nn.Sequential(OneInput(name), tower.network) if takes_tensor else tower.network, reader, inputs)


def joined_sides(sides: Sequence[TextSide]) -> TextSide:
    """Several side by side: their vectors, each brought to length 1 (a zero vector stays), joined end to end."""

    def inputs(texts: Sequence[str]) -> Mapping[str, Tensor]:
        return {
            f"{number}.{name}": tensor
            for number, side in enumerate(sides)
            for name, tensor in side.inputs(texts).items()
        }

    return TextSide(_Joined(sides), JoinedInputs([side.reader for side in sides]), inputs)


class FirstValues(nn.Module):
    """The first values of each vector."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self._outputs = outputs

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, outputs) of (n, d) vectors."""
        return vectors[:, : self._outputs]


class OneInput(nn.Module):
    """What is given, under its name: of inputs that are the vectors already."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """(n, d), as given."""
        return inputs[self._name]


class _Joined(nn.Module):
    def __init__(self, sides: Sequence[TextSide]) -> None:
        super().__init__()
        self.networks = nn.ModuleList([side.network for side in sides])
        self._names = [side.reader.names for side in sides]

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        parts = []
        for number, (network, names) in enumerate(zip(self.networks, self._names, strict=True)):
            vectors = network({name: inputs[f"{number}.{name}"] for name in names})
            lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
            parts.append(vectors / torch.where(lengths > 0, lengths, torch.ones_like(lengths)))
        return torch.cat(parts, dim=1)
