"""A training run: from a recipe to a checkpoint folder that `load` takes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from visir.encoders.models.tower_files import LAYOUT, write_files
from visir.encoders.models.towers import TowersEncoder
from visir.errors import ImageError
from visir.records import Collection
from visir.training.build import build_model
from visir.training.checkpoint import Checkpoint
from visir.training.data import open_splits
from visir.training.dual_encoder import DualEncoder
from visir.training.examples import build_examples
from visir.training.fit import FitResult, Report
from visir.training.folder import RECIPE_FILE
from visir.training.processes import Processes
from visir.training.recipe import Recipe, expand
from visir.training.settings import to_toml
from visir.training.tensorboard import EVENTS
from visir.training.tensorboard import FOLDER as TENSORBOARD_FOLDER


def train(
    recipe: Recipe,
    out: str | Path,
    *,
    collection: Collection | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Path:
    """Train a dual encoder and write its checkpoint folder.

    The folder is an encoder: `visir.load(out)` encodes images and texts into the space that was learnt. It holds
    `towers.safetensors`, `visir.json` (shapes, frozen encoders and their cards, the recipe, the curve, the validation
    figures), `recipe.toml` (the resolved recipe: `visir train` runs it again), `curve.json` (one entry per epoch) and
    `steps.jsonl` (one line per step).

    Vectors of frozen encoders go through the store, so a second training over the same ones encodes nothing. Launched
    as several processes (torchrun), each takes its share of every batch and the first one writes.

    Args:
        recipe: What to train, and how.
        out: The checkpoint folder.
        collection: Used instead of the one that the recipe names.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin.
        report: Called with each epoch's point of the curve.

    Returns:
        The path of the folder.

    Raises:
        VisirError: `out` holds something already, or another process trains into it.
        ImageError: A picture cannot be read; the message names it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.

    Example:
        >>> from visir.training import find_recipe, read_recipe
        >>> changes = ["data.collection=scenes:50?size=64", "optimiser.epochs=1", "optimiser.batch=16"]
        >>> train(read_recipe(find_recipe("scenes-heads"), changes), "heads").name
        'heads'
    """
    out = Path(out)
    processes = Processes.join(recipe.device)
    checkpoint = Checkpoint(out, LAYOUT, recipe_text(recipe), resume, {TENSORBOARD_FOLDER: EVENTS})
    checkpoint.check_free(processes)
    started = time.perf_counter()
    splits = open_splits(recipe, collection)
    model = build_model(recipe, splits.train, str(processes.device))

    def write(path: Path, result: FitResult[DualEncoder], facts: dict[str, Any]) -> Mapping[str, Any]:
        encoder = TowersEncoder(model.towers, model.base_encoders, name=str(out), device="cpu")
        return write_files(path, encoder, facts=facts)

    with _pictures_named(recipe):
        learner = DualEncoder(model.towers, model.objective)
        examples = build_examples(recipe, model, splits)
        checkpoint.train(recipe, learner, *examples, write, prepared=time.perf_counter() - started, report=report)
    return out


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, opening with the command that runs it."""
    return to_toml(recipe, f"visir train {RECIPE_FILE}")


@contextmanager
def _pictures_named(recipe: Recipe) -> Iterator[None]:
    """A picture that cannot be read stops a training; say what mends it, and what finds the others."""
    try:
        yield
    except ImageError as fault:
        look = f"all such pictures: visir data check {shlex.quote(expand(recipe.data.collection))}"
        raise ImageError(fault.message, hint=f"{expand(recipe.data.obtain) or fault.hint}\n  → {look}") from fault
