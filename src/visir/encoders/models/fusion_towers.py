"""The towers of X-VLM and ALBEF: the authors' preprocessing, and one of the two towers with its projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from visir.encoders.models.captions import CaptionTokens
from visir.encoders.models.fusion_config import Sizes
from visir.encoders.models.fusion_model import FusionFamily, FusionModel
from visir.encoders.models.image_input import ImageInput
from visir.encoders.models.model_files import loading, read_small_files
from visir.encoders.models.pretrained_towers import random_weights, recompute_activations
from visir.encoders.models.token_tower import TokenTower
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_tower import PretrainedTower
from visir.records import Modality

FAMILIES = {"xvlm": "visir.encoders.models.xvlm", "albef": "visir.encoders.models.albef"}
"""Kind to the module whose `FAMILY` it is."""


class _Projected(nn.Module):
    """A tower and its projection; the vector is the projection of the tower's first token."""

    def __init__(self, tower: nn.Module, proj: nn.Module) -> None:
        super().__init__()
        self.tower: Any = tower
        self.proj = proj

    def tokens(self, inputs: Inputs) -> Tensor:
        """(n, t, width): everything the tower says of each input."""
        if isinstance(inputs, Tensor):
            patches: Tensor = self.tower(inputs)
            return patches
        words: Tensor = self.tower(**inputs).last_hidden_state
        return words

    def forward(self, inputs: Inputs) -> Tensor:
        vectors: Tensor = self.proj(self.tokens(inputs)[:, 0, :])
        return vectors


class _FusionTower(PretrainedTower):
    """What the two towers have in common."""

    family: ClassVar[str] = "fusion"
    network: _Projected

    def __init__(self, model: FusionModel) -> None:
        self.kind, self.sizes, self.outputs = model.family.kind, model.sizes, model.sizes.dimension


class FusionImageTower(_FusionTower):
    """Images squeezed to a square (bicubic), normalised with CLIP's mean and deviation."""

    modality: Modality = "image"

    def __init__(self, model: FusionModel) -> None:
        super().__init__(model)
        self.network = _Projected(model.vision, model.vision_proj)
        side = self.sizes.image
        self.input = ImageInput(size=(side, side), normalise="clip", resize="squash", interpolation="bicubic")

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """uint8 (H, W, 3) of each image."""
        return [self.input.prepare(image) for image in items]

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """float32 (n, 3, H, W)."""
        return torch.from_numpy(self.input.batch(prepared))

    def values(self) -> dict[str, Any]:
        """How images become inputs."""
        return self.input.to_dict()

    def spec(self) -> dict[str, Any]:
        """The sizes."""
        return {"model": self.kind, "sizes": self.sizes.to_dict()}

    def files(self) -> dict[str, bytes]:
        """None: the sizes say everything."""
        return {}

    def checkpoint_gradients(self) -> None:
        """timm's own switch."""
        self.network.tower.set_grad_checkpointing(True)


class FusionTextTower(TokenTower, _FusionTower):
    """Texts as plain captions through BERT's uncased tokenizer and the lower layers."""

    def __init__(
        self, model: FusionModel, files: dict[str, bytes], *, max_length: int, max_words: int, template: str
    ) -> None:
        super().__init__(model)
        self.network = _Projected(model.text, model.text_proj)
        self._files = files
        self._options = {"max_length": max_length, "max_words": max_words, "template": template}
        self.tokens = CaptionTokens(
            files,
            vocabulary=int(self.sizes.text["vocab_size"]),
            positions=int(self.sizes.text["max_position_embeddings"]),
            max_length=max_length,
            max_words=max_words,
            template=template,
        )

    def spec(self) -> dict[str, Any]:
        """The sizes, and how long a caption may be."""
        return {"model": self.kind, "sizes": self.sizes.to_dict(), **self._options}

    def files(self) -> dict[str, bytes]:
        """The vocabulary."""
        return dict(self._files)

    def checkpoint_gradients(self) -> None:
        """transformers' own switch."""
        recompute_activations(self.network.tower, f"the text tower of {self.kind}")


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedTower:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    with loading(str(folder), folder), random_weights():
        model = FusionModel(_family(str(spec["model"])), Sizes.from_dict(spec["sizes"]))
        if modality == "image":
            return FusionImageTower(model)
        options = {key: spec[key] for key in ("max_length", "max_words", "template")}
        return FusionTextTower(model, read_small_files(folder), **options)


def _family(kind: str) -> FusionFamily:
    family: FusionFamily = import_module(FAMILIES[kind]).FAMILY
    return family
