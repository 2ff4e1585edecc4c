"""A training run: from a recipe to a checkpoint folder that `load` takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from visir.encoders import combiner as combiner_files
from visir.encoders.checkpoints import Layout
from visir.encoders.models import towers as tower_files
from visir.encoders.models.towers import TowersEncoder
from visir.errors import ImageError
from visir.training.build import build_model
from visir.training.checkpoint import EVENTS, Checkpoint
from visir.training.checkpoint import FOLDER as TENSORBOARD_FOLDER
from visir.training.combining import train_combiner
from visir.training.data import KEYWORDS, TOWERS, RecipeChanges, open_splits
from visir.training.examples import build_examples, check_pictures
from visir.training.learner import DualEncoder, LateInteraction
from visir.training.loop import FitResult, Report
from visir.training.processes import Processes
from visir.training.recipe import Recipe, expand
from visir.training.trained import TrainedModel


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Any = None,
    *,
    model: Any = None,
    image_model: Any = None,
    text_model: Any = None,
    out: str | Path | None = None,
    images: Any = None,
    split_by: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    set: RecipeChanges | None = None,
    resume: bool = False,
    report: Report | None = None,
    **sections: Any,
) -> TrainedModel:
    """Train an encoder of images and texts on pairs, as a recipe says: tune a model, train heads, or begin anew.

    What comes back is a folder and stands wherever a model does: `visir.load(run)`, `visir.evaluate(photos, run)`. It
    holds the weights (`towers.safetensors`), what they are (`visir.json`), the whole recipe (`recipe.toml`, which
    `visir train` runs again), one entry per epoch (`curve.json`) and one line per step (`steps.jsonl`).

    A collection without splits is divided: 9 of 10 pictures are trained on, 1 of 10 says after each epoch how well it
    goes. Vectors of frozen encoders are kept, so a second training over the same ones encodes nothing. A training that
    is stopped (Ctrl-C) goes on with `resume=True`. `visir.training.plan` says what a training would take.

    Args:
        recipe: The name of one that comes with visir (`visir.recipes()`), a TOML file, the same as a dictionary, or a
            `Recipe`.
        data: Pictures and captions, as `visir.open` takes them: a file, a folder, a list of (image, caption), a
            DataFrame, a collection. By default what the recipe names. A recipe with a combiner takes composed queries:
            FashionIQ, CIRR, "scenes:2000?task=composed".
        model: The encoder that is tuned, or whose vectors are learnt from, for both sides.
        image_model: The encoder of images alone.
        text_model: The encoder of texts alone.
        out: The folder to write; `runs/NAME-seedSEED` when it is left out.
        images: Where the pictures of `data` are, when they do not lie beside it.
        split_by: How pictures are divided into training and validation: "random(train=0.8, val=0.2, seed=1)".
        epochs: How often every caption is seen.
        batch: How many pairs a step compares with one another.
        rate: The learning rate at its peak.
        seed: Of everything that is random.
        device: "cpu", "cuda", "cuda:1", or "auto".
        set: Any other keys of the recipe: {"objective.temperature": 0.05, "optimiser.chunk": 32}.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin. A training that
            is finished is not done again.
        report: Called with each epoch.
        **sections: Keys at the top of the recipe: `dimension=256`, `objective={"name": "ifm"}`.

    Returns:
        The trained model: `path`, `curve`, `validation`, `load()`.

    Raises:
        ConfigurationError: The recipe has faults; all of them are listed, with the nearest right names.
        VisirError: `out` holds something already, or another process trains into it.
        ImageError: A picture cannot be read; the message names it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.

    Example:
        >>> import visir
        >>> run = visir.train("scenes-heads", data="scenes:50?size=64", out="heads", epochs=2, batch=32)
        >>> [epoch.epoch for epoch in run.curve], visir.load(run).encode_texts(["a red circle"]).shape
        ([1, 2], (1, 128))
    """
    keywords = {name: value for name, value in locals().items() if name in KEYWORDS}
    return train_resolved(*TOWERS.resolve(recipe, data, keywords, sections, set), out, resume=resume, report=report)


def train_resolved(
    resolved: Recipe, collection: Any, out: str | Path | None, *, resume: bool = False, report: Report | None = None
) -> TrainedModel:
    """Train by a recipe that says everything, on the collection that it names."""
    if resolved.combiner is not None:
        return train_combiner(resolved, collection, out, resume=resume, report=report)
    events = {TENSORBOARD_FOLDER: EVENTS}
    checkpoint = Checkpoint.begin(resolved, "train", out, layout_of(resolved), resume=resume, events=events)
    splits = open_splits(resolved, collection)
    if checkpoint.is_finished_with(resolved, trained_on=splits.train, validated_on=splits.validation):
        return TrainedModel(checkpoint.path)
    built = build_model(resolved, splits.train, str(Processes.join(resolved.device).device))

    def write(path: Path, result: FitResult[DualEncoder], facts: dict[str, Any]) -> Mapping[str, Any]:
        encoder = TowersEncoder(
            built.towers,
            built.base_encoders,
            name=str(checkpoint.path),
            device="cpu",
            prompts=resolved.text.prompts,
        )
        return tower_files.write_files(path, encoder, facts=facts)

    with pictures_named(resolved):
        check_pictures(resolved, built, splits)
        examples = build_examples(resolved, built, splits)
        learner = (LateInteraction if built.is_late else DualEncoder)(built.towers, built.objective)
        checkpoint.train(resolved, learner, *examples, write, report=report)
    return TrainedModel(checkpoint.path)


def layout_of(recipe: Recipe) -> Layout:
    """Which files the checkpoint of a recipe has."""
    if recipe.combiner is not None:
        return combiner_files.LAYOUT
    return tower_files.LAYOUT if recipe.adapter is None else tower_files.ADAPTERS_LAYOUT


@contextmanager
def pictures_named(recipe: Recipe) -> Iterator[None]:
    """A picture that cannot be read stops a training; say what mends it, and what finds the others."""
    try:
        yield
    except ImageError as fault:
        images = recipe.data.images or ()
        places = [expand(place) for place in ([images] if isinstance(images, str) else images)]
        options = [word for place in places for word in ("--images", place)]
        look = f"all such pictures: {shlex.join(['visir', 'data', 'check', expand(recipe.data.collection), *options])}"
        raise ImageError(fault.message, hint=f"{expand(recipe.data.obtain) or fault.hint}\n  → {look}") from fault
