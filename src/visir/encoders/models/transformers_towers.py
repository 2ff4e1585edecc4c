"""The image tower and the text tower of a model of `transformers`, whatever class it is of.

What differs between classes is data (`transformers_kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from visir.encoders.devices import COMPILED, dtype_on_card, of_torch, pick_device
from visir.encoders.models.hub import (
    SMALL_FILES,
    ModelFiles,
    load_model,
    loading,
    one_of,
    positive_number,
    read_small_files,
    template_of,
)
from visir.encoders.models.image_processors import (
    BACKENDS,
    ImageProcessor,
    NaFlexProcessor,
    collate_patches,
    image_processor,
    processor_file,
)
from visir.encoders.models.text_inputs import TextInputs, Tokens
from visir.encoders.models.towers import PretrainedTowersEncoder, bias_of, check_pictures
from visir.encoders.models.transformers_kinds import (
    POOLINGS,
    TOWER_POOLINGS,
    ModelKind,
    dual_class_of,
    family_of_class,
    has_first_token,
    pooled_image,
    pooled_text,
)
from visir.encoders.towers.base import Inputs, to_device
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    TokenTower,
    part,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality


@dataclass(frozen=True)
class TowerReading:
    """How the vectors of one modality are read out of a model."""

    features: Callable[[Any, Any], Tensor]  # from the model and a batch to the vectors, before normalisation
    parts: tuple[str, ...] = ()  # the children of the model that it uses; all, when empty
    unused: tuple[str, ...] = ()  # what lies in them and is never computed
    outputs: int | None = None  # the length of a vector; None is found out by a trial
    facts: tuple[tuple[str, str], ...] = ()  # what a person should know of it, for the card


def reading_of(kind: ModelKind, config: Any, modality: Modality, pooling: str | None = None) -> TowerReading:
    """What is known of a class; `pooling` is what the name asks for, of vision towers."""
    if len(kind.modalities) == 1 and modality == "text":
        return TowerReading(pooled_text)
    if len(kind.modalities) == 1:
        own = TOWER_POOLINGS.get(kind.model_type)
        chosen = pooling or own or "pooler"
        unused = ("embeddings.mask_token", *(("pooler",) if own and chosen != "pooler" else ()))
        return TowerReading(partial(pooled_image, pooling=chosen), unused=unused, facts=(("pooling", chosen),))
    family = family_of_class(kind.class_name)
    facts = () if family.described else (("read_by", "get_image_features and get_text_features, as they are"),)
    return TowerReading(
        family.image if modality == "image" else family.text,
        family.image_parts if modality == "image" else family.text_parts,
        family.unused,
        family.dimension(config),
        facts,
    )


class _Network(nn.Module):
    """One tower's modules, and the way through them."""

    def __init__(self, model: nn.Module, features: Callable[[Any, Any], Tensor]) -> None:
        super().__init__()
        self.model: Any = model
        self._features = features

    def forward(self, inputs: Inputs) -> Tensor:
        return self._features(self.model, inputs)


class _Tower(PretrainedBackbone):
    """What the two towers have in common."""

    family: ClassVar[str] = "transformers"
    network: _Network
    small_files: ClassVar[tuple[str, ...]]

    def __init__(self, kind: ModelKind, model: Any, folder: Path, reading: TowerReading) -> None:
        super().__init__()
        self.model_kind, self.folder, self.reading = kind, folder, reading
        children = [*model._modules, *model._parameters]
        beginnings = tuple(name[:-1] for name in reading.parts if name.endswith("*"))
        only = [name for name in children if name in reading.parts or (beginnings and name.startswith(beginnings))]
        self.network = _Network(part(part(model, only=only), without=reading.unused), reading.features)
        self.outputs = reading.outputs or 0

    def find_outputs(self, device: str) -> None:
        """Find out how long a vector is by making one, where no configuration says it."""
        if self.outputs:
            return
        with torch.inference_mode():
            vectors = self(to_device(self.collate(self.prepare_all([self._trial()])), device))
        if vectors.ndim != 2:
            raise EncoderError(
                f"{self.model_kind.class_name} gives {tuple(vectors.shape)} for one {self.modality}, not one vector.",
                hint="wrap it: visir.Encoder.wrap('mine', image=function, text=function)",
            )
        self.outputs = int(vectors.shape[1])

    def files(self) -> dict[str, bytes]:
        """What `save_pretrained` wrote for this tower, but the weights."""
        if self.model_kind.is_foreign:
            raise EncoderError(
                f"{self.model_kind.class_name}: a model whose code comes with it cannot be tuned, only used as it is.",
                hint='tower = "frozen" trains a head over it',
                code="model-whose-code-comes",
            )
        if family_of_class(self.model_kind.class_name).several:
            raise EncoderError(
                f"{self.model_kind.class_name}: a model with several vectors for each image cannot be tuned, only used "
                "as it is.",
                hint="models with one vector for each image and text can be tuned",
                code="model-several-vectors-each",
            )
        return read_small_files(self.folder, self.small_files)

    def checkpoint_gradients(self) -> None:
        """Compute activations again, where the model has a switch for it."""
        recompute_activations(self.network.model, f"the {self.modality} tower of a {self.model_kind.class_name}")

    def _trial(self) -> Any:
        raise NotImplementedError


class DualImageTower(_Tower):
    """Images through the model's own image processor, its vision tower and projection."""

    modality: Modality = "image"
    small_files = ("config.json", "*processor_config.json")

    def __init__(
        self,
        kind: ModelKind,
        model: Any,
        folder: Path,
        *,
        processor: str | None,
        pooling: str | None = None,
        patches: int | None = None,
    ) -> None:
        if pooling == "cls" and not has_first_token(model):
            raise EncoderError(
                f"{folder}: pooling=cls: this model has no first token that stands for the image.",
                hint="pooling=mean; or leave pooling out",
                code="pooling-cls",
            )
        super().__init__(kind, model, folder, reading_of(kind, model.config, "image", pooling))
        self._asked = {"pooling": pooling}
        self.processor = image_processor(folder, processor, patches, code=kind.is_foreign)
        self.levels = None if isinstance(self.processor, NaFlexProcessor) else self.processor.levels

    def prepare_all(self, items: Sequence[Any]) -> list[Any]:
        """Of each image float32 (3, H, W), or (rows, columns, values) of its patches for a NaFlex model."""
        return [self.processor.pixels(image) for image in items]

    def prepare_levels(self, items: Sequence[Any]) -> list[Any]:
        """As `PretrainedBackbone.prepare_levels`."""
        assert isinstance(self.processor, ImageProcessor)
        return [self.processor.grey_levels(image) for image in items]

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """(n, 3, H, W), or patches, their places and a mask."""
        if isinstance(self.processor, NaFlexProcessor):
            return collate_patches(prepared)
        return torch.from_numpy(np.stack(prepared))

    def preprocessing(self) -> dict[str, Any]:
        """The image processor's settings."""
        return {**self.processor.values(), **dict(self.reading.facts)}

    def options(self) -> dict[str, Any]:
        """The model's class, and which implementation of its image processor."""
        return {"class": self.model_kind.class_name, "processor": self.processor.backend, **self._asked}

    def files(self) -> dict[str, bytes]:
        """What `save_pretrained` wrote for this tower, but the weights."""
        if isinstance(self.processor, NaFlexProcessor):
            raise EncoderError(
                f"{self.model_kind.class_name}: a tower whose pictures have any shape cannot be tuned, only used as it "
                "is.",
                hint='tower = "frozen" trains a head over it; the fixed-resolution SigLIP 2 models can be tuned',
                code="tower-whose-pictures-shape",
            )
        return super().files()

    def _trial(self) -> Any:
        from PIL import Image

        return Image.new("RGB", (64, 64))


def check_tower(name: str, tower: DualImageTower, folder: Path, config: Any, device: str) -> None:
    """Raise `EncoderError` where the pictures of the processor are none that the model takes."""
    if isinstance(tower.processor, NaFlexProcessor):
        return
    vision = getattr(config, "vision_config", None) or getattr(config, "image_config", None) or config
    size = getattr(vision, "image_size", None)
    sizes = [size] if isinstance(size, int) or (isinstance(size, list | tuple) and len(size) == 2) else []
    check_pictures(name, tower, processor_file(folder).name, sizes, device)


class DualTextTower(TokenTower, _Tower):
    """Texts through the model's own tokenizer, its text tower and projection."""

    small_files = SMALL_FILES

    def __init__(self, kind: ModelKind, model: Any, folder: Path, *, template: str, max_length: int | None) -> None:
        single = len(kind.modalities) == 1
        family = family_of_class(dual_class_of(kind.model_type) or "" if single else kind.class_name)
        super().__init__(kind, model, folder, reading_of(kind, model.config, "text"))
        self._asked = {"template": template, "max_length": max_length}
        config = model.config if single else family.text_config(model.config)
        self.tokens = Tokens(
            folder,
            limit=family.limit(config),
            vocabulary=getattr(config, "vocab_size", None),
            padding=family.padding,
            inputs=family.inputs,
            template=template,
            max_length=max_length,
            code=kind.is_foreign,
        )

    def text_inputs(self) -> TextInputs | None:
        """As of every tower with a tokenizer of transformers, but for a model whose code comes with it."""
        return None if self.model_kind.is_foreign else super().text_inputs()

    def preprocessing(self) -> dict[str, Any]:
        """The tokenizer's settings."""
        return {**super().preprocessing(), **dict(self.reading.facts)}

    def options(self) -> dict[str, Any]:
        """The model's class, and what was asked of the tokenizer."""
        return {"class": self.model_kind.class_name, **self._asked}

    def _trial(self) -> Any:
        return "a dog"


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    import transformers

    with loading(str(folder), folder), random_weights():
        model_class = getattr(transformers, str(spec["class"]))
        config = model_class.config_class.from_pretrained(folder)
        both = all(hasattr(model_class, name) for name in ("get_image_features", "get_text_features"))
        kind = ModelKind(
            config.model_type,
            model_class,
            frozenset({"image", "text"} if both or spec["class"] == "BlipForImageTextRetrieval" else {modality}),
        )
        model = model_class(config).eval()
        tower: _Tower
        if modality == "image":
            tower = DualImageTower(kind, model, folder, processor=spec["processor"], pooling=spec["pooling"])
        else:
            tower = DualTextTower(kind, model, folder, template=spec["template"], max_length=spec["max_length"])
        tower.find_outputs("cpu")
        return tower


# Models of `transformers` as encoders: images and texts through two towers, or one of them through one.

Towers = dict[Modality, PretrainedBackbone]


def load(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """Load the model of this kind that lies in `files`."""
    torch_device, torch_dtype = of_torch(device, dtype)
    card, model, towers, picked = load_towers(name, kind, files, options, device=torch_device, dtype=torch_dtype)
    own = family_of_class(kind.class_name).temperature(model) if len(kind.modalities) > 1 else None
    card = replace(card, dtype=dtype_on_card(device, dtype))
    device = COMPILED if device == COMPILED else picked
    return PretrainedTowersEncoder(card, towers, device=device, temperature=own, bias=bias_of(model))


def load_towers(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> tuple[EncoderCard, Any, Towers, str]:
    """Card, whole model, its towers, and the device that they are on."""
    device = pick_device(device)
    checks = _checked(name, kind, options)
    with loading(name, code=kind.is_foreign), files.code_held() if kind.is_foreign else nullcontext():
        model = _load_model(name, kind, files, dtype, checks["pooling"]).to(device)
        towers: Towers = {}
        if "image" in kind.modalities:
            towers["image"] = image = DualImageTower(
                kind,
                model,
                files.folder,
                processor=checks["processor"],
                pooling=checks["pooling"],
                patches=checks["patches"],
            )
            check_tower(name, image, files.folder, model.config, device)
            image.find_outputs(device)
        if "text" in kind.modalities:
            towers["text"] = text = DualTextTower(
                kind, model, files.folder, template=checks["template"], max_length=checks["max_length"]
            )
            text.find_outputs(device)
        if kind.is_foreign:
            files.check_code(model)
        lengths = {tower.outputs for tower in towers.values()}
        if len(lengths) > 1:
            raise EncoderError(
                f"{name}: its image vectors and text vectors have {' and '.join(map(str, sorted(lengths)))} values: "
                "they cannot be compared with one another.",
                hint="this class gives features from below a common space",
            )
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=towers["image"].preprocessing() if "image" in towers else {},
            text_preprocessing=towers["text"].preprocessing() if "text" in towers else {},
            dtype=dtype,
            code_revisions=files.code_revisions if kind.is_foreign else {},
        )
    return card, model, towers, device


def _checked(name: str, kind: ModelKind, options: dict[str, str]) -> dict[str, Any]:
    """The values of the options; those that this kind could only ignore are refused."""
    single = len(kind.modalities) == 1
    useless = {
        "processor": "image" not in kind.modalities,
        "patches": "image" not in kind.modalities,
        "pooling": not single or "image" not in kind.modalities,
        "template": "text" not in kind.modalities,
        "max_length": "text" not in kind.modalities,
    }
    for option in options:
        if useless.get(option):
            takes = " and ".join(f"{modality}s" for modality in sorted(kind.modalities))
            raise EncoderError(
                f"{name}: {option} says nothing to a {kind.class_name}, which makes vectors of {takes}.",
                hint=f"leave {option} out",
                code="says-nothing-makes-vectors",
            )
    return {
        "processor": one_of(name, options, "processor", BACKENDS) if "processor" in options else None,
        "pooling": one_of(name, options, "pooling", POOLINGS) if "pooling" in options else None,
        "patches": positive_number(name, options, "patches"),
        "template": template_of(name, options),
        "max_length": positive_number(name, options, "max_length"),
    }


def _load_model(name: str, kind: ModelKind, files: ModelFiles, dtype: str, pooling: str | None) -> Any:
    """The model; weights that no tower uses may be missing: a pooler that nobody reads."""
    config = kind.model_class.config_class.from_pretrained(
        files.folder, **({"trust_remote_code": True} if kind.is_foreign else {})
    )
    files.hash_ahead()
    unused = [part for modality in kind.modalities for part in reading_of(kind, config, modality, pooling).unused]
    return load_model(name, kind.model_class, files, dtype, unused=unused, code=kind.is_foreign)
