"""What injecting synthetic shortcuts costs of a training step, on one thread.

    python benchmarks/shortcuts_cost.py [--steps 20]

The same batches are built without shortcuts and with unique ones, in turn, and the difference of the medians is what
injecting costs; beside it stands the time of a whole step: batch, towers, loss, backward pass and update. Batches are
built by a thread of their own while the model computes, so the share printed is an upper bound of what is lost.

- scenes-vse: a small CNN at 64 × 64 pixels and a GRU, the recipe as it is: the cheapest step of all
- resnet18, resnet50: at 224 × 224 pixels and a GRU, with random weights; the thesis's VSE++ has a larger ResNet still
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from visir.training.build import build_model
from visir.training.data import open_splits
from visir.training.examples import build_examples
from visir.training.inputs import EpochRandom
from visir.training.learner import DualEncoder
from visir.training.loop import Training, update
from visir.training.processes import Processes, Share
from visir.training.recipe import Recipe, read_recipe
from visir.training.shipped import find_recipe

RESNET = ("image.tower=resnet", "image.weights=random", "image.size=224", "optimiser.batch=16")
MODELS: Mapping[str, Sequence[str]] = {
    "scenes-vse": (),
    "resnet18": (*RESNET, "image.depth=18"),
    "resnet50": (*RESNET, "image.depth=50"),
}
COLLECTION = "data.collection=scenes:300?size=64"
SHORTCUTS = "shortcuts.kind=unique"
WARM_UP = 2


def recipe_of(model: str, *changes: str) -> Recipe:
    return read_recipe(find_recipe("scenes-vse"), [COLLECTION, *MODELS[model], *changes])


def prepared(model: str, *changes: str) -> Training:
    """A training of the recipe about to begin."""
    recipe = recipe_of(model, *changes)
    splits = open_splits(recipe)
    built = build_model(recipe, splits.train, "cpu")
    train, validation = build_examples(recipe, built, splits)
    return Training(recipe, DualEncoder(built.towers, built.objective), train, validation, Processes.join("cpu"))


def measured(model: str, steps: int) -> tuple[int, NDArray[np.float64]]:
    """The batch, and (3,) milliseconds: inputs without shortcuts, inputs with them, a whole step with them."""
    plain, stamped = prepared(model), prepared(model, SHORTCUTS)
    stamped.learner.train()
    size, draw, times = stamped.recipe.optimiser.batch, EpochRandom(0, 0), []
    for step in range(WARM_UP + steps):
        rows: NDArray[np.int64] = np.random.default_rng(step).choice(len(plain.train), size, replace=False)
        share = Share.of(rows, process=0, processes=1, chunk=None)
        begun = time.perf_counter()
        plain.train.batch(rows, draw)
        without = time.perf_counter()
        batch = stamped.train.batch(rows, draw)
        with_shortcuts = time.perf_counter()
        update(stamped, [share], iter([batch]), step)
        done = time.perf_counter()
        times.append([without - begun, with_shortcuts - without, done - without])
    return size, 1000 * np.median(times[WARM_UP:], axis=0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread; medians of {asked.steps} steps, milliseconds\n")
    print(f"{'model':12}{'batch':>7}{'inputs':>9}{'with shortcuts':>16}{'injecting':>11}{'a step':>9}{'share':>8}")
    for model in asked.models:
        batch, (plain, stamped, step) = measured(model, asked.steps)
        cost = stamped - plain
        print(f"{model:12}{batch:7}{plain:9.2f}{stamped:16.2f}{cost:11.2f}{step:9.1f}{cost / step:8.1%}", flush=True)


if __name__ == "__main__":
    main()
