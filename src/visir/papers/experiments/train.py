"""Train a recipe and evaluate its checkpoint: chapter 4, and latent target decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from visir.evaluation.evaluate import Evaluation
from visir.papers.published_values import nearest_reading, values_of
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, train_once
from visir.studies.shortcut_setups import WITH, WITHOUT
from visir.training.recipe import Recipe, expand

COURSE = {"λ": "ltd multiplier", "reconstruction": "ltd", "contrastive": "contrastive"}
"""What a training's course is told by (LTD, Figure 2): label → its name in the log of steps."""
_LAST = 0.02  # of the steps: one batch differs more from the next than the curve moves within that


class TrainExperiment(Experiment):
    """A training, and its checkpoint on the test split: without shortcuts, as the tables of chapter 4 have it.

    - `recipe`, `set`: of `visir train`, and changes to it
    - `judgements`, `relevance`: further judgements that the checkpoint is judged by instead of the links (CxC)
    - `curves`: say where λ and the losses ended, and what λ was at most

    Besides the table's labels there is "with rsum", the rsum of the split *with* the shortcuts of the training.
    """

    experiment: Literal["train"] = "train"
    recipe: str
    set: tuple[str, ...] = ()
    judgements: str | None = None
    relevance: str = "links"
    curves: bool = False

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"visir train {self.recipe}" + "".join(f" --set {one}" for one in self.set)

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.evaluation.results import load_evaluation

        recipe = PriorTraining(recipe=self.recipe, set=self.set).resolved(context.seed)
        folder = train_once(recipe, context)
        found = load_evaluation(folder / WITHOUT)
        if self.relevance != "links":
            found = self._judged_otherwise(folder, recipe, context)
        values = values_of(found.result.aggregates, context.row)
        if (folder / WITH).is_dir():
            values["with rsum"] = load_evaluation(folder / WITH).result.mean("both", "rsum")
        if self.curves:
            values |= _course(folder)
        protocol = found.result.protocol
        provenance = {"system": recipe.name, "collection": protocol.collection}
        return Measurement(
            values,
            {**provenance, "fingerprint": protocol.collection_fingerprint[:12]},
            dict(protocol.card()),
            nearest_reading(found, context),
            tuple(found.result.notes),
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


def _course(folder: Path) -> dict[str, float]:
    """Where the course of a training ended: means over its last steps; validation rsum of the last epoch."""
    from visir.files import read_json
    from visir.studies.trial import CHECKPOINT
    from visir.training.folder import CURVE_FILE
    from visir.training.step_log import STEPS_FILE, read_steps

    steps = list(read_steps(folder / CHECKPOINT / STEPS_FILE))
    curve = read_json(folder / CHECKPOINT / CURVE_FILE)
    values = {"validation rsum": float(curve[-1]["validation"]["rsum"])}
    for label, key in COURSE.items():
        series = [one for step in steps if (one := (step.losses | step.facts).get(key)) is not None]
        if series:
            values[f"{label}, last"] = float(np.mean(series[-max(1, int(_LAST * len(series))) :]))
            if label == "λ":
                values["λ, largest"] = float(max(series))
    return values
