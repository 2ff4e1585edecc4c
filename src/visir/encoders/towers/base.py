"""Backbones and towers: a backbone reads images or texts, a head brings its features into the common space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from visir.encoders.towers.head import Head
from visir.encoders.truncation import TextLimit
from visir.records import Modality

Inputs = Tensor | Mapping[str, Tensor]
"""What enters a backbone's forward pass for a batch: one tensor or several by name, the first axis the batch."""


class PromptInputs(dict[str, Any]):
    """The inputs of a batch of texts under several prompts, by prompt: a text's vector is the mean over them."""


LENGTHS = "lengths"
"""The name of an input that says how long each sequence of a padded batch is; it stays on the CPU."""


def to_device(inputs: Inputs, device: str | torch.device) -> Inputs:
    """A collated batch on `device`; out of pinned memory it is copied while the device still computes."""
    # What is called "lengths" stays on the CPU: packing sequences needs it there, and to ask a GPU for it would be to
    # wait until it has done all its work.
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, PromptInputs):
        return PromptInputs({prompt: to_device(of_prompt, device) for prompt, of_prompt in inputs.items()})
    return {
        name: tensor if name == LENGTHS else tensor.to(device, non_blocking=True) for name, tensor in inputs.items()
    }


class Backbone(nn.Module, ABC):
    """A network of one modality: prepared inputs in, feature vectors out.

    Preparing is split from the forward pass so that threads can do it while the model computes. What `prepare` gives is
    the same in training and in use; augmentation changes the picture, or the words, before or after it, never inside.

    Attributes:
        kind: Its key in `visir.encoders.models.trained_tower.BACKBONES`.
        modality: What it reads.
        outputs: The width of its features.
    """

    kind: ClassVar[str]
    modality: Modality
    outputs: int

    @abstractmethod
    def prepare(self, item: Any) -> Any:
        """One upright RGB PIL image, or one text, to what enters the forward pass. Pure, cheap and thread-safe."""

    def prepare_sized(self, item: Any) -> Any:
        """As `prepare`, for a picture that a random crop has brought to the input's size: not resized or cut again.

        Evaluation of an ImageNet network scales to 256 and cuts out 224; a random crop of 224 is what it trains on.
        """
        return self.prepare(item)

    def text_limit(self) -> TextLimit | None:
        """As `Encoder.text_limit`."""
        return None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated; none where nothing is (`Encoder.truncate`)."""
        return list(texts)

    @abstractmethod
    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """Several prepared items to one batch on the CPU: stacked, or padded to the longest."""

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) features of a batch, on the device of the weights."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Plain values from which `load` builds the same architecture; part of a checkpoint's `visir.json`."""

    @abstractmethod
    def preprocessing(self) -> dict[str, Any]:
        """Everything in `prepare` that changes the numbers, for the encoder's card."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """The architecture that `spec` describes, its weights still to be put in; reads what `save` wrote."""

    def save(self, folder: Path) -> None:
        """Write what is neither a weight nor in `spec` (a vocabulary) into `folder`, which exists."""

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """The modules whose weights came trained (an ImageNet network, GloVe vectors).

        They are held fixed in the first phase of a two-phase schedule.
        """
        return ()


class Tower(nn.Module):
    """A backbone and a head; without a backbone, a head over vectors that a frozen encoder gave and the store keeps."""

    def __init__(self, backbone: Backbone | None, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @property
    def inputs(self) -> int:
        """The length of the features that it takes."""
        return self.head.spec.inputs

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, dimension) vectors of a batch; not normalised."""
        vectors: Tensor = self.head(inputs if self.backbone is None else self.backbone(inputs))
        return vectors

    def project(self, vectors: Tensor) -> Tensor:
        """(n, dimension) vectors from those of a frozen encoder, in use."""
        projected: Tensor = self.head(vectors)
        return projected


def own_backbone(backbone: Backbone | None) -> Backbone:
    """The backbone of a tower that is known to have one."""
    assert backbone is not None, "a tower without a backbone has a frozen encoder"
    return backbone
