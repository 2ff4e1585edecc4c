"""Several trainings of which the validation split chooses one (thesis 4.5.1 and 4.5.2: η or β of LTD, ε of IFM)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visir.studies.experiment import ExperimentContext
from visir.studies.shared_training import PriorTraining, train_once
from visir.studies.trial import CHECKPOINT
from visir.training.recipe import Recipe

Choice = tuple[str, ...]
"""Changes to a recipe, "section.key=value"."""


def choose(training: PriorTraining, choices: Sequence[Choice], context: ExperimentContext) -> tuple[Recipe, Path, str]:
    """Train every choice, and take the one with the highest rsum of the validation split."""
    # The split is searched *without* shortcuts, as the tables' test split is: with unique ones every training finds
    # everything. (The thesis says "the highest performance on the validation set".) The test split decides nothing.
    trainings = [training.model_copy(update={"set": (*training.set, *choice)}) for choice in choices]
    recipes = [changed.resolved(context.seed) for changed in trainings]
    folders = [train_once(recipe, context) for recipe in recipes]
    sums = [
        _validation_rsum(recipe, folder, context.folder / f"validation-{number}", context)
        for number, (recipe, folder) in enumerate(zip(recipes, folders, strict=True))
    ]
    best = max(range(len(sums)), key=lambda number: sums[number])
    listed = "; ".join(f"{', '.join(choice)}: {rsum:.1f}" for choice, rsum in zip(choices, sums, strict=True))
    return recipes[best], folders[best], f"{', '.join(choices[best])}, by validation rsum ({listed})"


def _validation_rsum(recipe: Recipe, folder: Path, target: Path, context: ExperimentContext) -> float:
    """rsum of the validation split without shortcuts; kept in `target`, so that a killed cell goes on."""
    from visir.encoders import load
    from visir.evaluation.evaluate import evaluate
    from visir.evaluation.result_files import is_result
    from visir.evaluation.results import load_evaluation, save
    from visir.training.data import open_whole

    with context.locks.process:
        if not is_result(target):
            encoder = load(str(folder / CHECKPOINT))
            collection = open_whole(recipe.data)
            save(evaluate(collection, encoder, split=recipe.data.validation, depth=10), target, replace=True)
        return load_evaluation(target).result.mean("both", "rsum")
