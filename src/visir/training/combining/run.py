"""From a recipe with a combiner to a checkpoint folder that `visir.load` takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from visir.encoders.base import Encoder
from visir.encoders.broken import check_there
from visir.encoders.composed.combiner import Combiner, CombinerSpec
from visir.encoders.composed.files import LAYOUT, write_files
from visir.encoders.composed.trained import CombinerEncoder
from visir.encoders.encoding import is_stored
from visir.encoders.towers.head import HeadSpec
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection, Modality, Task, TaskFile, TaskSet
from visir.training.checkpoint import Checkpoint
from visir.training.combining.examples import ComposedExamples, ComposedSource, examples_of, pictures_of
from visir.training.combining.learner import CombinerLearner
from visir.training.fit import FitResult, Report
from visir.training.models import ModelLoader
from visir.training.objectives.objective import build_objective
from visir.training.processes import Processes
from visir.training.recipe import CombinerSettings, Recipe
from visir.training.sides import FrozenImages, FrozenTexts, HeadShape
from visir.training.trained import TrainedModel


def train_combiner(
    recipe: Recipe, source: Any, out: str | Path | None, *, resume: bool = False, report: Report | None = None
) -> TrainedModel:
    """Train a combiner over frozen encoders."""
    checkpoint = Checkpoint.begin(recipe, "train", out, LAYOUT, resume=resume)
    parts = {
        name: _split(source, split) for name, split in (("train", recipe.data.train), ("val", recipe.data.validation))
    }
    if checkpoint.is_finished_with(recipe, trained_on=parts["train"], validated_on=parts["val"]):
        return TrainedModel(checkpoint.path)
    tasks = {name: _composed(part, recipe) for name, part in parts.items()}
    encoders = _encoders(recipe, tasks["train"])
    alike = 0 if recipe.combiner is None else recipe.combiner.alike
    pictures = [*pictures_of(tasks["train"], everything=bool(alike)), *pictures_of(tasks["val"], everything=True)]
    check_there([items for items in pictures if not is_stored(encoders["image"], items)])
    train = examples_of(tasks["train"], encoders, validation=False, alike=alike)
    validation = examples_of(tasks["val"], encoders, validation=True)
    combiner, objective = _build(recipe, train, encoders)

    def write(path: Path, result: FitResult[CombinerLearner], facts: dict[str, Any]) -> Mapping[str, Any]:
        encoder = CombinerEncoder(combiner, encoders, name=str(checkpoint.path), device="cpu")
        return write_files(path, encoder, facts=facts)

    checkpoint.train(recipe, CombinerLearner(combiner, objective), train, validation, write, report=report)
    return TrainedModel(checkpoint.path)


def _split(source: Any, split: str) -> TaskFile | TaskSet:
    if isinstance(source, Collection) or not hasattr(source, "task"):
        raise CollectionError(
            f"{source.name}: images and captions; a combiner learns from queries of a picture and a text.",
            hint="visir train composed-scenes --data fashioniq:FOLDER, cirr:FOLDER, 'scenes:2000?task=composed'",
            code="images-captions",
        )
    part: TaskFile | TaskSet = source.split(split)
    return part


def _composed(part: TaskFile | TaskSet, recipe: Recipe) -> dict[str, Task]:
    """The tasks of a split with composed queries among all of its images: a subset of them is no task of its own."""
    tasks = {name: part.task(name) for name in part.tasks}
    composed = {
        name: task
        for name, task in tasks.items()
        if task.queries.modality == "text+image" and task.documents.modality == "image" and task.pools is None
    }
    if not composed:
        raise CollectionError(f"{recipe.name}: {part.name}: no task has queries of a picture and a text.")
    return composed


def _encoders(recipe: Recipe, tasks: Mapping[str, Task]) -> dict[Modality, Encoder]:
    models = ModelLoader(str(Processes.join(recipe.device).device))
    assert isinstance(recipe.image, FrozenImages) and isinstance(recipe.text, FrozenTexts)
    texts = [text for task in tasks.values() if task.queries.texts for text in task.queries.texts.to_pylist() if text]
    return {"image": models.image_base_encoder(recipe.image), "text": models.text_base_encoder(recipe.text, texts)}


def _build(recipe: Recipe, train: ComposedExamples, encoders: Mapping[Modality, Encoder]) -> tuple[Combiner, Any]:
    """The network and the objective, drawn from the seed of the recipe."""
    settings = recipe.combiner or CombinerSettings()
    width = encoders["image"].dimension if recipe.dimension == "own" else recipe.dimension
    if recipe.dimension == "own" and encoders["text"].dimension != width and recipe.text.head.identity:
        raise ConfigurationError(
            f'{recipe.name}: dimension = "own" with two identity heads needs encoders of one dimension; images have '
            f"{width}, texts {encoders['text'].dimension}.",
            hint="--set text.head.identity=false: a linear head brings texts into the space of images",
            code="dimension-two-identity-heads",
        )
    sides: tuple[tuple[Modality, HeadShape], ...] = (("image", recipe.image.head), ("text", recipe.text.head))
    heads = {side: HeadSpec(encoders[side].dimension, width, **head.model_dump()) for side, head in sides}
    spec = CombinerSpec(heads["image"], heads["text"], settings.projection, settings.hidden, settings.dropout)
    with torch.random.fork_rng([]):
        torch.manual_seed(recipe.seed)
        combiner = Combiner(spec)
        objective = build_objective(
            recipe.objective,
            recipe.auxiliary,
            dimension=width,
            target_width=None,
            vocabulary=None,
            own_temperature=None,
        )
    assert isinstance(train.anchors, ComposedSource)
    combiner.head.fit_scaling(train.anchors.vectors("image"))
    combiner.text_head.fit_scaling(train.anchors.vectors("text"))
    return combiner, objective
