"""A tower of a loaded encoder as a backbone: everything in it is tuned."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from visir.encoders.base import Encoder
from visir.encoders.models.grey_levels import GreyLevels
from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.towers.base import Backbone, Inputs
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError
from visir.records import Modality
from visir.registry import Registry

# PretrainedTowers: the image side or the text side of a loaded model, used as it is or tuned.

PRETRAINED_TOWERS: Registry[str] = Registry("family of pretrained towers")
"""Family to "module:function"; the function takes (folder, modality, spec) and gives the tower whose `files` lie in the
folder, its weights random. A new family is a subclass of `PretrainedTower`, an encoder made of them, and one line
here."""

PRETRAINED_TOWERS.add("transformers", "visir.encoders.models.transformers_towers:load_tower")
PRETRAINED_TOWERS.add("openclip", "visir.encoders.models.openclip_towers:load_tower")
PRETRAINED_TOWERS.add("sentence-transformers", "visir.encoders.models.sentence_tower:load_tower")
PRETRAINED_TOWERS.add("fusion", "visir.encoders.models.fusion_model:load_tower")
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


LATE_INTERACTION = "late-interaction models"


class PretrainedBackbone(Backbone):
    """The image tower or the text tower of an encoder, with a copy of its weights in float32."""

    # The encoder keeps its own weights, because its card is the key under which its vectors are kept. In a model that
    # was loaded in another precision the copy is float32 from here on; mixed precision is the training loop's business.
    # Features are the model's projections before normalisation: the encoder's `embed_images` and `embed_texts` go
    # through the same forward pass.
    # Batch normalisation (CLIP's ResNets, ALIGN, GroupViT's projections) keeps the running statistics that came with
    # the weights, in training too; its scales and offsets are tuned. The other reading, statistics of every batch,
    # makes a vector depend on its neighbours: then a batch in chunks, or over several processes, is not the batch.

    kind: ClassVar[str] = "pretrained"
    as_bytes: bool = False
    """Whether pictures are prepared as bytes, for a GPU; `forward` takes either, to the same bits (`GreyLevels`)."""

    def __init__(self, encoder: Encoder, modality: Modality, *, checkpointing: bool = False) -> None:
        if modality not in encoder.modalities:
            raise encoder.cannot(modality)
        self._take(copy.deepcopy(_tunable(encoder).pretrained_tower(modality)))
        if checkpointing:
            self.source.checkpoint_gradients()

    def _take(self, pretrained_tower: PretrainedTower) -> None:
        super().__init__()
        self.source = pretrained_tower
        self._files = pretrained_tower.files()  # now, because the folder they are in may be gone when training ends
        self.modality, self.outputs = pretrained_tower.modality, pretrained_tower.outputs
        self.network = pretrained_tower.network.float().requires_grad_(True)

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`, but batch normalisation stays with its running statistics."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def prepare(self, item: Any) -> Any:
        """An image to float32 (3, H, W) by the model's own preprocessing, or a text to its int32 token ids."""
        return self.source.prepare_levels([item])[0] if self._takes_bytes else self.source.prepare([item])[0]

    def prepare_sized(self, item: Any) -> Any:
        """An image that a random crop has brought to the input's size, where the tower can take it as it is."""
        return self.source.prepare_levels([item])[0] if self._takes_bytes else self.source.prepare_sized([item])[0]

    @property
    def _takes_bytes(self) -> bool:
        return self.as_bytes and self.source.levels is not None

    def text_limit(self) -> TextLimit | None:
        """As the tower says."""
        return self.source.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the tower does it."""
        return self.source.truncate(texts, ending)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """(n, 3, H, W) pixels, or token ids padded as the model's family does it (and the mask, if it takes one)."""
        return self.source.collate(prepared)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) projections before normalisation."""
        if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8 and self.source.levels is not None:
            inputs = self.source.levels.on_device(inputs)
        if isinstance(inputs, Tensor) and inputs.is_floating_point():
            inputs = inputs.to(next(self.network.parameters()).dtype)
        vectors: Tensor = self.network(inputs)
        return vectors

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """The whole tower: all of it came trained."""
        return (self.network,)

    def spec(self) -> dict[str, Any]:
        """Family and modality, and what the family needs beside the files that `save` writes."""
        vocabulary = self.preprocessing().get("vocabulary")
        return {
            "family": self.source.family,
            "modality": self.modality,
            **({"vocabulary": vocabulary} if vocabulary else {}),
            **self.source.spec(),
        }

    def preprocessing(self) -> dict[str, Any]:
        """As on the card of the encoder it was taken from."""
        return self.source.values()

    def save(self, folder: Path) -> None:
        """Configuration, tokenizer and image processor: all that `load` needs but the weights."""
        for name, content in self._files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """The architecture with random weights, from what `save` wrote; the hub and the first folder are not asked."""
        module, _, function = PRETRAINED_TOWERS.get(spec["family"]).partition(":")
        pretrained_tower = getattr(import_module(module), function)(folder, spec["modality"], spec)
        if pretrained_tower.values().get("vocabulary") != spec.get("vocabulary"):
            raise EncoderError(
                f"{folder}: its tokenizer gives other ids than the one the text tower was trained with.",
                hint="copy the whole checkpoint again, or install the model libraries in the versions that trained it",
                code="tokenizer-gives-other-ids",
            )
        backbone = cls.__new__(cls)
        backbone._take(pretrained_tower)
        return backbone


def own_temperature(encoder: Encoder) -> float | None:
    """The temperature at which the encoder's cosines were trained, or None where it has none (BLIP, sentence
    encoders)."""
    # CLIP, AltCLIP, GroupViT and open_clip's models keep the logarithm of the inverse temperature, ALIGN the
    # temperature itself. SigLIP was trained with a sigmoid of `scale · cosine + bias`; in a softmax over candidates the
    # bias cancels, and `1 / scale` is the temperature at which the same logits enter it.
    return _tunable(encoder).own_temperature()


def own_bias(encoder: Encoder) -> float | None:
    """The bias that stood beside the encoder's cosines in a sigmoid loss (SigLIP), or None where it has none."""
    own = getattr(_tunable(encoder), "own_bias", None)
    return None if own is None else own()


def _tunable(encoder: Encoder) -> Tunable:
    if isinstance(encoder, Tunable):
        return encoder
    kind = f"encoders of the family {encoder.card.family!r}"
    raise not_tunable(encoder.card.name, LATE_INTERACTION if encoder.form == "multi-vector" else kind)


def not_tunable(name: str, kind: str) -> EncoderError:
    """The error for a model that cannot be tuned, nor take adapters; `kind` says what it is, in the plural."""
    return EncoderError(
        f"{name}: {kind} cannot be tuned, and take no adapters here; they are only used as they are.",
        hint=f'tower = "frozen" trains a head over it; families that can be tuned: {", ".join(PRETRAINED_TOWERS)} '
        "(models with one vector for each picture and text, such as openai/clip-vit-base-patch32)",
        code="cannot-tuned-take-no",
    )
