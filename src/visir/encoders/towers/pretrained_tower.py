"""PretrainedTowers: the image side or the text side of a loaded model, used as it is or tuned."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from torch import nn

from visir.encoders.models.grey_levels import GreyLevels
from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.towers.base import Inputs
from visir.encoders.truncation import TextLimit
from visir.records import Modality
from visir.registry import Registry

PRETRAINED_TOWERS: Registry[str] = Registry("family of pretrained towers")
"""Family to "module:function"; the function takes (folder, modality, spec) and gives the tower whose `files` lie in the
folder, its weights random. A new family is a subclass of `PretrainedTower`, an encoder made of them, and one line
here."""

PRETRAINED_TOWERS.add("transformers", "visir.encoders.models.transformers_towers:load_tower")
PRETRAINED_TOWERS.add("openclip", "visir.encoders.models.openclip_towers:load_tower")
PRETRAINED_TOWERS.add("sentence-transformers", "visir.encoders.models.sentence_tower:load_tower")
PRETRAINED_TOWERS.add("fusion", "visir.encoders.models.fusion_towers:load_tower")
PRETRAINED_TOWERS.add("towers", "visir.encoders.models.trained_tower:load_tower")


class PretrainedTower(ABC):
    """What one modality of a model needs, and nothing of the other one."""

    family: ClassVar[str]  # its key in `PRETRAINED_TOWERS`
    modality: Modality  # what it reads
    outputs: int  # the width of its projections
    # Turns what `prepare_levels` gives into what `prepare` gives; None where pictures have no such form.
    levels: GreyLevels | None = None
    # A module that holds every weight this modality uses and no other; it takes what `collate` gives and returns the
    # (n, outputs) projections before normalisation, with gradients where they are on.
    network: nn.Module

    @abstractmethod
    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """Upright RGB images to pixels, or texts to token ids, one entry each. Thread-safe."""

    def prepare_sized(self, items: Sequence[Any]) -> list[Any]:
        """As `prepare`, for pictures that a random crop has brought to the input's size (`Backbone.prepare_sized`)."""
        return self.prepare(items)

    def prepare_levels(self, items: Sequence[Any]) -> list[Any]:
        """Upright RGB images as bytes (3, H, W), for towers that have `levels`. Thread-safe."""
        raise NotImplementedError

    def text_limit(self) -> TextLimit | None:
        """How many tokens of a text are read; None where all are, or where it cannot tell (`Encoder.text_limit`)."""
        return None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated; none where nothing is (`Encoder.truncate`)."""
        return list(texts)

    def text_inputs(self) -> TextInputs | None:
        """What `prepare` and `collate` make of texts, made without PyTorch; None where only PyTorch's libraries can."""
        return None

    @abstractmethod
    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """Prepared items to a batch on the CPU, padded as the family does it."""

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Everything in `prepare` and `collate` that changes the numbers, as plain values for the encoder's card."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Plain values that the family's function in `PRETRAINED_TOWERS` needs beside the `files`."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files from which the tower is built again without the hub and its first folder: no weights that
        matter."""
        # Keys are relative POSIX paths.

    @abstractmethod
    def checkpoint_gradients(self) -> None:
        """Keep fewer activations in training and compute them again (Chen et al. 2016)."""

    def base_module(self) -> nn.Module:
        """The model as its own library has it, without what this tower does not use: adapters name its modules."""
        model = getattr(self.network, "model", None)
        return model if isinstance(model, nn.Module) else self.network

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Only weights are worth a copy; tokenizers hold locks, which cannot be copied, and nothing that changes.
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network, memo)
        return other


@runtime_checkable
class Tunable(Protocol):
    """An encoder whose towers can be tuned."""

    def pretrained_tower(self, modality: Modality) -> PretrainedTower:
        """One tower, sharing its weights with the encoder."""

    def own_temperature(self) -> float | None:
        """The temperature that the model was trained to; None when it has none."""
