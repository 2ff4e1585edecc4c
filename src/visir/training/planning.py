"""What a recipe amounts to: parameters, steps and memory, before anything is encoded or trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from visir.display import Displayed
from visir.encoders.models.joined import WithWhole
from visir.encoders.towers.base import PRESENT, VECTORS, WHOLE, Inputs, SetTower
from visir.errors import ConfigurationError
from visir.records import Collection, Modality, TokenVectors
from visir.training.build import ModelSide, TrainingModel, build_model
from visir.training.data import KEYWORDS, TOWERS, RecipeChanges, Splits, open_splits
from visir.training.examples import check_pictures
from visir.training.inputs import KEPT_BYTES
from visir.training.optimiser import build_optimiser
from visir.training.processes import Processes, kept_bytes, peak_memory, steps_per_epoch
from visir.training.recipe import FETCHED, Augmentation, FrozenImages, FrozenTexts, Recipe, ResNet
from visir.training.run import pictures_named
from visir.training.similarities import VectorPairs

# How much memory a training will take, before anything is encoded or trained.

_PROBE = 2
"""Samples of the forward pass by which the activations of a step are measured."""
_IMAGE = Image.new("RGB", (256, 256))
_LENGTH = 0.9
"""Texts of the probe are as long as the longest of nine in ten: a batch is padded to its longest."""


@dataclass(frozen=True)
class Memory:
    """Bytes, estimated."""

    process: int  # what this process holds with everything loaded: libraries, frozen encoders, fresh weights
    weights: int  # gradients, the optimiser's two moments, the best epoch's copy and, with averaging, the mean
    features: int  # vectors of frozen encoders (memory-mapped: the system may drop them), prepared pictures, captions
    activations: int  # what the forward pass of a step leaves for the backward pass

    @property
    def total(self) -> int:
        """All of it."""
        return self.process + self.weights + self.features + self.activations


def estimate_memory(recipe: Recipe, model: TrainingModel, splits: Splits, trained: int) -> Memory:
    """What a training of `model` takes, of whose weights `trained` numbers are trained."""
    return Memory(
        _process(recipe, model),
        _weights(recipe, model, trained),
        _features(recipe, model, splits),
        _activations(recipe, model, splits.train),
    )


def _process(recipe: Recipe, model: TrainingModel) -> int:
    """What is held now, with an optimiser's libraries loaded too: in torch they are a good hundred megabytes."""
    parts = {"image": model.towers["image"], "text": model.towers["text"], "objective": model.objective}
    build_optimiser(parts, recipe.optimiser, {})
    return peak_memory().get("process", 0)


def _weights(recipe: Recipe, model: TrainingModel, trained: int) -> int:
    towers = sum(parameter.numel() for tower in model.towers.values() for parameter in tower.parameters())
    copies = 1 + (recipe.averaging.snapshots > 0)
    return 4 * (3 * trained + copies * towers)


def _features(recipe: Recipe, model: TrainingModel, splits: Splits) -> int:
    rows = {
        "image": (splits.train.images.num_rows, splits.validation.images.num_rows),
        "text": (splits.train.captions.num_rows, splits.validation.captions.num_rows),
    }
    views = len(recipe.image.views) if isinstance(recipe.image, FrozenImages) else 1
    total = 0
    for modality, side in model.sides.items():
        if side.base_encoder is not None:
            seen = views if modality == "image" else 1
            seen_rows = seen * rows[modality][0] + rows[modality][1]
            total += _bytes_each(side, _long_text(splits.train)) * seen_rows
    if not isinstance(recipe.image, FrozenImages):
        size = sum(tensor.nbytes for tensor in _tensors(_probe(model.sides["image"], _IMAGE, 1)))
        changed = recipe.image.augment != Augmentation()
        sizes = [size * count for count, random in zip(rows["image"], (changed, False), strict=True) if not random]
        total += sum(size for size in sizes if size <= KEPT_BYTES)
    if not isinstance(recipe.text, FrozenTexts):
        total += sum(text.nbytes for split in (splits.train, splits.validation) for text in [split.captions["text"]])
    if model.target is not None:
        total += 4 * model.target.dimension * rows["text"][0]
    return total


def _activations(recipe: Recipe, model: TrainingModel, train: Collection) -> int:
    """Of the chunk that goes through the towers at once, and of the objective over the whole batch."""
    # Towers grow with the number of samples. The objective grows with it and with its square (the similarities), so it
    # is measured at three sizes, through which there is one parabola.
    batch = min(recipe.optimiser.batch, train.captions.num_rows)
    together = min(recipe.optimiser.chunk or batch, batch)
    text = _long_text(train)
    probes: dict[Modality, Inputs] = {
        "image": _probe(model.sides["image"], _IMAGE, _PROBE),
        "text": _probe(model.sides["text"], text, _PROBE),
    }
    state = {side: tower.training for side, tower in model.towers.items()}
    towers = 0.0
    with torch.random.fork_rng():
        for side, tower in model.towers.items():
            tower.train()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.precision != "float32"):
                bytes_kept = kept_bytes(lambda t=tower, s=side: t(probes[s]), _held(tower))  # type: ignore[misc]
            towers += bytes_kept / _PROBE
            tower.train(state[side])
        sizes = (4, 8, 16)
        measured = [_objective_bytes(recipe, model, text, size) for size in sizes]
    parabola = np.polynomial.Polynomial.fit(sizes, measured, 2)
    return int(towers * together + max(0.0, float(parabola(batch))))


def _objective_bytes(recipe: Recipe, model: TrainingModel, text: str, size: int) -> int:
    def pair() -> Tensor:
        return functional.normalize(torch.randn(size, model.dimension, requires_grad=True), dim=-1)

    images, texts = pair(), pair()
    if model.is_late:
        counts = {side: _vectors_each(model.sides[side], text) for side in model.sides}
        images = images[:, None].repeat(1, counts["image"], 1)
        texts = texts[:, None].repeat(1, counts["text"], 1)
    targets = None if model.target is None else torch.randn(size, model.target.dimension)
    tokens = None
    if model.tokens is not None:
        flat, _ = model.tokens.encode([text])
        tokens = torch.from_numpy(np.tile(flat.astype(np.int64), (size, 1)))
    pairs = VectorPairs(images, texts, torch.arange(size), targets, tokens)
    return kept_bytes(lambda: model.objective(pairs), [images, texts, *_held(model.objective)])


def _held(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _probe(side: ModelSide, item: Any, count: int) -> Inputs:
    """The inputs of a tower for so many pictures, or texts, that are alike."""
    backbone = side.tower.backbone
    if backbone is None:
        return _frozen_probe(side, item if isinstance(item, str) else "", count)
    return backbone.collate([backbone.prepare(item)] * count)


def _frozen_probe(side: ModelSide, text: str, count: int) -> Inputs:
    width = side.tower.head.spec.inputs
    if not isinstance(side.tower, SetTower):
        return torch.zeros(count, width)
    present = torch.ones(count, _vectors_each(side, text), dtype=torch.bool)
    probe = {VECTORS: torch.zeros(present.numel(), width), PRESENT: present}
    whole = side.tower.whole
    return probe if whole is None else {**probe, WHOLE: torch.zeros(count, whole.spec.inputs)}


def _bytes_each(side: ModelSide, text: str) -> int:
    """The bytes held of what a frozen encoder gives for an item: several vectors in float16, one in float32."""
    encoder = side.base_encoder
    assert encoder is not None
    if isinstance(encoder, WithWhole):
        return 2 * _vectors_each(side, text) * encoder.several.dimension + 4 * encoder.whole.dimension
    several = encoder.form == "multi-vector"
    return encoder.dimension * (2 * _vectors_each(side, text) if several else 4)


def _vectors_each(side: ModelSide, text: str) -> int:
    """How many vectors a frozen encoder gives for the text, or for an image."""
    encoder = side.base_encoder
    assert encoder is not None, "a side without a frozen encoder has one vector for an item"
    embedded = encoder.encode_texts([text]) if "text" in encoder.modalities else encoder.encode_images([_IMAGE])
    return int(embedded.counts[0]) if isinstance(embedded, TokenVectors) else 1


def _long_text(train: Collection) -> str:
    texts: list[str] = train.captions["text"].to_pylist()
    return sorted(texts, key=len)[int(_LENGTH * (len(texts) - 1))]


def _tensors(inputs: Inputs) -> list[Any]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs.values())


@dataclass(frozen=True)
class Parameters:
    """How many numbers of a part of the model are trained, and how many never are."""

    # `first_fixed`: those of the trained ones that came trained, and are held fixed for `schedule.frozen_epochs`.

    trained: int
    fixed: int
    first_fixed: int = 0


@dataclass(frozen=True, repr=False)
class TrainingPlan(Displayed):
    """What a recipe amounts to.

    Attributes:
        recipe: The resolved recipe.
        images, captions: Of the splits "train" and "validation".
        parameters: Of "image backbone", "image head", "text backbone", "text head" (a frozen side has no backbone)
            and "objective".
        steps_per_epoch: Updates of the weights.
        steps: In all.
    """

    recipe: Recipe
    images: dict[str, int]
    captions: dict[str, int]
    parameters: dict[str, Parameters]
    steps_per_epoch: int
    steps: int
    memory: Memory


def plan(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Any = None,
    *,
    set: RecipeChanges | None = None,
    **changes: Any,
) -> TrainingPlan:
    """What a training would take: opens the collection and loads the encoders, encodes and trains nothing.

    Weights of ImageNet are not fetched.

    Args:
        recipe: As `visir.train` takes it.
        data: As `visir.train` takes it.
        set: As `visir.train` takes it.
        **changes: Keywords of `visir.train` that change the recipe: `model`, `epochs`, `batch`, …

    Raises:
        VisirError: Data is missing; the hint is what to download.
        ImageError: Pictures of the two splits are missing: all are looked for.

    Example:
        >>> plan("scenes-heads", "scenes:50?size=64", batch=64).steps_per_epoch
        4
    """
    keywords = {name: changes.pop(name) for name in KEYWORDS if name in changes}
    recipe, collection = TOWERS.resolve(recipe, data, keywords, changes, set)
    if recipe.combiner is not None:
        raise ConfigurationError(
            f"{recipe.name}: a combiner over frozen vectors is trained in minutes; there is no plan of it.",
            hint=f"visir train {recipe.name}",
        )
    splits = open_splits(recipe, collection)
    device = Processes.join(recipe.device).device
    model = build_model(_without_download(recipe), splits.train, str(device))
    with pictures_named(recipe):
        check_pictures(recipe, model, splits)
    parameters = _parameters(recipe, model)
    captions = {"train": splits.train.captions.num_rows, "validation": splits.validation.captions.num_rows}
    per_epoch = steps_per_epoch(captions["train"], recipe.optimiser.batch, recipe.optimiser.accumulate)
    return TrainingPlan(
        recipe,
        {"train": splits.train.images.num_rows, "validation": splits.validation.images.num_rows},
        captions,
        parameters,
        per_epoch,
        per_epoch * recipe.optimiser.epochs,
        estimate_memory(recipe, model, splits, sum(part.trained for part in parameters.values())),
    )


def _is_fetched(recipe: Recipe) -> bool:
    return isinstance(recipe.image, ResNet) and recipe.image.weights in FETCHED


def _without_download(recipe: Recipe) -> Recipe:
    if not _is_fetched(recipe):
        return recipe
    return recipe.model_copy(update={"image": recipe.image.model_copy(update={"weights": "random"})})


def _parameters(recipe: Recipe, model: TrainingModel) -> dict[str, Parameters]:
    parts: dict[str, Parameters] = {}
    for modality, tower in model.towers.items():
        if tower.backbone is not None:
            # ImageNet's weights, which were not fetched, are all of a ResNet.
            fetched = modality == "image" and _is_fetched(recipe)
            pretrained = [tower.backbone] if fetched else tower.pretrained_modules()
            fixed = (parameter for module in pretrained for parameter in module.parameters())
            parts[f"{modality} backbone"] = _counted(tower.backbone.parameters(), fixed)
        parts[f"{modality} head"] = _counted(tower.head.parameters())
    parts["objective"] = _counted(model.objective.parameters())
    return parts


def _counted(parameters: Iterable[Tensor], pretrained: Iterable[Tensor] = ()) -> Parameters:
    counts = {True: 0, False: 0}
    for parameter in parameters:
        counts[parameter.requires_grad] += parameter.numel()
    return Parameters(
        counts[True], counts[False], sum(parameter.numel() for parameter in pretrained if parameter.requires_grad)
    )
