"""Trainings that cells need: each done once for all studies, in a process of its own, resumed where it was stopped."""

from __future__ import annotations

from pathlib import Path

from visir.errors import ConfigurationError
from visir.fingerprint import hash_json
from visir.studies.experiment import ExperimentContext
from visir.studies.shortcut_audit import WITH, WITHOUT
from visir.training.recipe import Recipe, expand, read_recipe
from visir.training.settings import Settings
from visir.training.shipped import find_recipe


class PriorTraining(Settings):
    """A training that comes first: a recipe of `visir train`, and changes to it ("section.key=value")."""

    recipe: str
    set: tuple[str, ...] = ()

    def resolved(self, seed: int) -> Recipe:
        """The recipe with its changes and the seed."""
        return read_recipe(find_recipe(self.recipe), [*self.set, f"seed={seed}"])


def train_once(recipe: Recipe, context: ExperimentContext) -> Path:
    """Train a recipe and evaluate its test split, without shortcuts and, where it has some, also with them."""
    # The folder is named by the recipe's settings, so studies that agree on a training share it, and one that was
    # changed has a folder of its own.
    from visir.studies.dual_encoder_trial import DualEncoderTrial
    from visir.studies.run_trials import run_trials

    evaluations: dict[str, str | None] = {WITHOUT: None}
    if recipe.shortcuts is not None:
        evaluations[WITH] = str(recipe.shortcuts.record())
    values = recipe.model_dump(mode="json")
    values["data"].pop("obtain", None)
    for words in ("title", "group"):
        values.pop(words)
    trial = DualEncoderTrial(f"{recipe.name}-{hash_json(values)[:10]}/seed{recipe.seed}", recipe, evaluations)
    out = context.shared / "trainings"
    with context.locks.for_folder(trial.folder(out)):
        wait_for(trial.folder(out))
        run_trials([trial], out, jobs=1)
    return trial.folder(out)


def wait_for(folder: Path) -> None:
    """Wait for a training in this trial's folder that another process carries out."""
    # When a study is killed, its trainings are not: they are processes of their own and go on. The study goes on once
    # they are done.
    from visir.studies.trial import CHECKPOINT
    from visir.training.folder import wait_until_free

    wait_until_free(folder / CHECKPOINT, f"{folder}: is being trained by another process; waiting for it")


def system_of(model: str | None, first: PriorTraining | None, context: ExperimentContext, where: str) -> str:
    """The name of a model, or the checkpoint of the training that comes first."""
    from visir.studies.trial import CHECKPOINT

    if (model is None) == (first is None):
        raise ConfigurationError(f"{where}: name either a model or a training that comes first.", hint="model or first")
    if first is not None:
        return str(train_once(first.resolved(context.seed), context) / CHECKPOINT)
    return expand(str(model))
