"""Train a recipe and evaluate its checkpoint: chapter 4, and latent target decoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from visir.evaluation.results import Evaluation
from visir.papers.published_values import nearest_reading, values_of
from visir.papers.query_draws import query_draws
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, train_once
from visir.studies.shortcut_setups import WITH, WITHOUT
from visir.studies.trial import CHECKPOINT
from visir.training.recipe import Recipe, expand

# Several trainings of which the validation split chooses one (thesis 4.5.1 and 4.5.2: η or β of LTD, ε of IFM).

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


CURVES = {"λ": "ltd multiplier", "reconstruction": "ltd", "contrastive": "contrastive"}
"""The curves of a training (LTD, Figure 2): label → its name in the log of steps."""


class TrainExperiment(Experiment):
    """A training, and its checkpoint on the test split: without shortcuts, as the tables of chapter 4 have it."""

    # Besides the table's labels there is "with rsum", the rsum of the split *with* the shortcuts of the training.

    experiment: Literal["train"] = "train"
    recipe: str  # a recipe of `visir train`
    set: tuple[str, ...] = ()  # changes to it, "section.key=value"
    # Further changes, of which the validation split chooses one list (`visir.papers.experiments.train`); the test split
    # of that training alone is measured.
    choices: tuple[tuple[str, ...], ...] = ()
    judgements: str | None = None  # further judgements (CxC) to attach
    relevance: str = "links"  # the judgements that count, instead of the links
    curves: bool = False  # whether to measure where the losses ended, and what λ did

    def describe(self) -> str:
        """See `Experiment.describe`."""
        chosen = f", the best of {len(self.choices)} by validation" if self.choices else ""
        return f"visir train {self.recipe}" + "".join(f" --set {change}" for change in self.set) + chosen

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.evaluation.results import load_evaluation

        training, chosen = PriorTraining(recipe=self.recipe, set=self.set), {}
        if self.choices:
            recipe, folder, chosen["chosen"] = choose(training, self.choices, context)
        else:
            recipe = training.resolved(context.seed)
            folder = train_once(recipe, context)
        evaluation = load_evaluation(folder / WITHOUT)
        if self.relevance != "links":
            evaluation = self._judged_otherwise(folder, recipe, context)
        values = values_of(evaluation.result.aggregates, context.row)
        draws = query_draws(evaluation.result, context.row)
        if (folder / WITH).is_dir():
            with_shortcuts = load_evaluation(folder / WITH).result
            values["with rsum"] = with_shortcuts.mean("both", "rsum")
            draws["with rsum"] = query_draws(with_shortcuts, None)["both rsum"]
        if self.curves:
            values |= _curves(folder)
        protocol = evaluation.result.protocol
        provenance = {"system": recipe.name, "collection": protocol.collection, **chosen}
        return Measurement(
            values,
            {**provenance, "fingerprint": protocol.collection_fingerprint[:12]},
            dict(protocol.card()),
            nearest_reading(evaluation, context),
            tuple(evaluation.result.notes),
            draws=draws,
        )

    def _judged_otherwise(self, folder: Path, recipe: Recipe, context: ExperimentContext) -> Evaluation:
        from visir.collections import attach_judgements
        from visir.encoders import load
        from visir.evaluation.evaluate import evaluate
        from visir.studies.trial import CHECKPOINT
        from visir.training.data import open_whole

        with context.locks.process:
            collection = open_whole(recipe.data)
            if self.judgements is not None:
                collection = attach_judgements(collection, expand(self.judgements))
            encoder = load(str(folder / CHECKPOINT))
            return evaluate(collection, encoder, split="test", relevance=self.relevance, depth=10)


def _curves(folder: Path) -> dict[str, float]:
    """The course of a training (`visir.training.course`), and the validation rsum of the last epoch."""
    from visir.storage import read_written_json
    from visir.studies.trial import CHECKPOINT
    from visir.training.course import curve_end, multiplier_course
    from visir.training.folder import CURVE_FILE
    from visir.training.step_log import STEPS_FILE, read_steps

    steps = list(read_steps(folder / CHECKPOINT / STEPS_FILE))
    curve = read_written_json(folder / CHECKPOINT / CURVE_FILE)
    values = {"validation rsum": float(curve[-1]["validation"]["rsum"])}
    for label, key in CURVES.items():
        series = [value for step in steps if (value := (step.losses | step.facts).get(key)) is not None]
        if series:
            curve_values = np.array(series, np.float64)
            values |= multiplier_course(curve_values) if label == "λ" else {f"{label}, last": curve_end(curve_values)}
    return values
