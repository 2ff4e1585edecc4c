"""Dual encoders of `transformers`: CLIP, AltCLIP, ALIGN, GroupViT, SigLIP, and BLIP's first stage.

Each has one tower per modality and one projection into the common space. What differs between them is data
(`dual_families`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from visir.encoders.devices import pick_device
from visir.encoders.models.dual_families import FAMILIES
from visir.encoders.models.image_processors import BACKENDS, ImageProcessor
from visir.encoders.models.model_files import (
    SMALL_FILES,
    ModelFiles,
    loading,
    no_progress_bar,
    read_small_files,
)
from visir.encoders.models.model_names import one_of, positive_number, template_of
from visir.encoders.models.pretrained_towers import (
    PretrainedTowersEncoder,
    bias_of,
    part,
    random_weights,
    recompute_activations,
)
from visir.encoders.models.token_tower import TokenTower
from visir.encoders.models.tokens import Tokens
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_tower import PretrainedTower
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality


class _DualNetwork(nn.Module):
    """One tower's modules, and the way through them."""

    def __init__(self, model: nn.Module, project: Callable[[Any, Any], Tensor]) -> None:
        super().__init__()
        self.model: Any = model
        self._project = project

    def forward(self, inputs: Inputs) -> Tensor:
        return self._project(self.model, inputs)


class _DualTower(PretrainedTower):
    """What the two towers have in common."""

    family: ClassVar[str] = "transformers"
    network: _DualNetwork
    small_files: ClassVar[tuple[str, ...]]

    def __init__(self, kind: str, model: Any, folder: Path, parts: tuple[str, ...], project: Any) -> None:
        family = FAMILIES[kind]
        self.kind, self.folder, self.outputs = kind, folder, family.dimension(model.config)
        self.network = _DualNetwork(part(part(model, only=parts), without=family.unused), project)

    def files(self) -> dict[str, bytes]:
        """What `save_pretrained` wrote for this tower, but the weights."""
        return read_small_files(self.folder, self.small_files)

    def checkpoint_gradients(self) -> None:
        """Compute activations again, where the model has a switch for it."""
        recompute_activations(self.network.model, f"the {self.modality} tower of a model of type {self.kind!r}")


class DualImageTower(_DualTower):
    """Images through the model's own image processor, its vision tower and projection."""

    modality: Modality = "image"
    small_files = ("config.json", "*processor_config.json")

    def __init__(self, kind: str, model: Any, folder: Path, *, processor: str) -> None:
        super().__init__(kind, model, folder, FAMILIES[kind].image_parts, FAMILIES[kind].image)
        self.processor = ImageProcessor(folder, processor)

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """float32 (3, H, W) of each image."""
        return [self.processor.pixels(image) for image in items]

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """(n, 3, H, W)."""
        return torch.from_numpy(np.stack(prepared))

    def values(self) -> dict[str, Any]:
        """The image processor's settings."""
        return self.processor.values()

    def spec(self) -> dict[str, Any]:
        """The model's type, and which implementation of its image processor."""
        return {"model_type": self.kind, "processor": self.processor.backend}


class DualTextTower(TokenTower, _DualTower):
    """Texts through the model's own tokenizer, its text tower and projection."""

    small_files = SMALL_FILES

    def __init__(self, kind: str, model: Any, folder: Path, *, template: str, max_length: int | None) -> None:
        family = FAMILIES[kind]
        super().__init__(kind, model, folder, family.text_parts, family.text)
        self._options = {"template": template, "max_length": max_length}
        self.tokens = Tokens(
            folder,
            limit=family.limit(model.config),
            vocabulary=int(model.config.text_config.vocab_size),
            padding=family.padding,
            inputs=family.inputs,
            template=template,
            max_length=max_length,
        )

    def spec(self) -> dict[str, Any]:
        """The model's type, and what was asked of the tokenizer."""
        return {"model_type": self.kind, **self._options}


def load(
    name: str, kind: str, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """Load the model of type `kind` that lies in `files`."""
    card, model, image, text, device = load_towers(name, kind, files, options, device=device, dtype=dtype)
    own = FAMILIES[kind].temperature(model)
    towers: dict[Modality, PretrainedTower] = {"image": image, "text": text}
    return PretrainedTowersEncoder(card, towers, device=device, temperature=own, bias=bias_of(model))


def load_towers(
    name: str, kind: str, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> tuple[EncoderCard, Any, DualImageTower, DualTextTower, str]:
    """Card, whole model, its two towers, and the device that they are on."""
    device = pick_device(device)
    backend = one_of(name, options, "processor", BACKENDS)
    template, max_length = template_of(name, options), positive_number(name, options, "max_length")
    with loading(name):
        model = load_model(name, FAMILIES[kind].model, files, dtype).to(device)
        image = DualImageTower(kind, model, files.folder, processor=backend)
        text = DualTextTower(kind, model, files.folder, template=template, max_length=max_length)
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=image.values(),
            text_preprocessing=text.values(),
            dtype=dtype,
        )
    return card, model, image, text, device


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedTower:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    import transformers

    kind = str(spec["model_type"])
    with loading(str(folder)), random_weights():
        model_class = getattr(transformers, FAMILIES[kind].model)
        model = model_class(model_class.config_class.from_pretrained(folder))
        if modality == "image":
            return DualImageTower(kind, model, folder, processor=spec["processor"])
        return DualTextTower(kind, model, folder, template=spec["template"], max_length=spec["max_length"])


def load_model(name: str, class_name: str, files: ModelFiles, dtype: str) -> Any:
    """`from_pretrained` of one class, in the dtype asked for, refusing a checkpoint that lacks any of its weights.

    transformers fills missing weights with random numbers and warns: a captioning checkpoint loaded as a retrieval
    model would give vectors, and they would mean nothing. Also, since version 5 the checkpoint's own dtype is taken
    unless one is named.
    """
    import transformers

    _ = files.weights  # a folder without weights is told apart from one whose weights are damaged
    with no_progress_bar():
        model, report = getattr(transformers, class_name).from_pretrained(
            files.folder, dtype=getattr(torch, dtype), output_loading_info=True
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise EncoderError(
            f"{name}: {len(missing)} weights of {class_name} are not in this checkpoint: {', '.join(missing[:4])}"
            + (", …" if len(missing) > 4 else "."),
            hint="it was made for another task, or is another kind of model",
        )
    return model.eval()
