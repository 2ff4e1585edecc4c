"""What a recipe amounts to: parameters, steps and memory, before anything is encoded or trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from visir.display import Displayed
from visir.errors import ConfigurationError
from visir.training.batches import steps_per_epoch
from visir.training.build import TrainingModel, build_model
from visir.training.data import open_splits
from visir.training.examples import check_pictures
from visir.training.footprint import Memory, estimate_memory
from visir.training.keywords import KEYWORDS, RecipeChanges
from visir.training.processes import Processes
from visir.training.recipe import Recipe
from visir.training.resolving import TOWERS
from visir.training.run import pictures_named
from visir.training.sides import FETCHED, ResNet


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
            pretrained = [tower.backbone] if fetched else tower.backbone.pretrained_modules()
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
