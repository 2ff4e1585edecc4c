"""Search products with the names of categories: chapter 7 of the thesis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from visir.products.relevance import Setting
from visir.products.task import TASK_NAME, Relevance
from visir.studies.draws import Draws
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand

if TYPE_CHECKING:
    from visir.products.evaluation import CategoryEvaluation
    from visir.products.split import Split
    from visir.products.systems import CategorySystem
    from visir.records.catalogue import Catalogue

SETTINGS: dict[Setting, str] = {
    "all": "All categories",
    "general": "The most general category",
    "specific": "The most specific category",
}
"""Rows of Table 7.2."""
LABELS = {
    "precision@1": "precision@1",
    "precision@5": "precision@5",
    "precision@10": "precision@10",
    "map@5": "capped_map@5",
    "map@10": "capped_map@10",
    "rprecision": "rprecision",
}
"""Label of Tables 7.1 and 7.3 → measure; mAP@k is read as in `visir.products.evaluation`, over min(R, k)."""
_RIGHT: dict[Relevance, str] = {
    "path": "a product is right for every category on its path",
    "drawn": "a product is right for the category that stands for it in the setting (drawn for all categories, seed 0)",
}


class CategoriesExperiment(Experiment):
    """A system on test products of a catalogue (`visir products evaluate`)."""

    # Over several folds, measures are means over the folds, measures of seen and unseen categories are means over all
    # queries together (some folds have no unseen category), and counts are sums. Trainings and draws have seed 0 in
    # every fold.

    experiment: Literal["categories"] = "categories"
    source: str  # the catalogue
    images: str | None = None  # where its pictures are
    baseline: str | None = None  # "bm25", "text:NAME", "clip:NAME"; or "clip" with `training`
    training: PriorTraining | None = None  # a training of `visir train`; its checkpoint is the encoder of the baseline
    recipe: str | None = None  # of `visir products train`, without the setting at the end of its name
    set: tuple[str, ...] = ()  # changes of the recipe
    # Which categories are queries; a model is trained for each setting.
    settings: Annotated[tuple[Setting, ...], Field(min_length=1)] = ("all", "general", "specific")
    # "measures": the labels of Table 7.1. "seen", "unseen": the same of these categories only. "same tree", "different
    # tree": how many first answers are wrong and lie there (labels as the rows of Table 7.2). "depths": both, and of
    # those in the same tree how many have which d = depth(c_p) − depth(c) ("d = -1", …).
    quantity: Literal["measures", "seen", "unseen", "same tree", "different tree", "depths"] = "measures"
    # See `visir.products.task.category_task`; "drawn" where errors are counted, because section 7.6.1 calls it an error
    # when c_p is not c.
    relevance: Relevance = "path"
    folds: Annotated[int, Field(ge=2)] = 5  # into how many parts the products are cut
    # Which folds are tested in this cell, from 1; without it, the fold of the seed of the cell (seed 0 is fold 1).
    test: tuple[Annotated[int, Field(ge=1)], ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> CategoriesExperiment:
        if (self.baseline is None) == (self.recipe is None):
            raise ValueError("name either a baseline or a recipe")
        if len(self.settings) > 1 and self.quantity not in ("same tree", "different tree"):
            raise ValueError(f"{self.quantity}: one setting in each cell")
        if any(fold > self.folds for fold in self.test):
            raise ValueError(f"test: there are {self.folds} folds")
        return self

    def describe(self) -> str:
        """See `Experiment.describe`."""
        system = self.baseline or f"visir products train {self.recipe}"
        system += f" by the checkpoint of {self.training.recipe}" if self.training else ""
        changes = "".join(f" --set {change}" for change in self.set)
        return f"{system}{changes} on {self.source}, {', '.join(self.settings)}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.products.evaluation import evaluate
        from visir.products.split import folds

        with context.locks.process:
            catalogue = _opened(expand(self.source), None if self.images is None else expand(self.images))
            whole = folds(catalogue, self.folds)
        splits = [whole[fold - 1] for fold in self.test or (context.seed % self.folds + 1,)]
        systems = self._systems(catalogue, splits, context)
        with context.locks.process:
            evaluation = evaluate(catalogue, systems, splits, settings=self.settings, relevance=self.relevance)
        values, notes = self._values(evaluation)
        ratio = self._fold_ratio(evaluation)
        return Measurement(
            values,
            {**self._provenance(evaluation), "collection": catalogue.name, "fingerprint": catalogue.fingerprint[:12]},
            self._protocol(evaluation, splits),
            notes=(*notes, *_notes(evaluation)),
            draws=self._draws(evaluation, ratio),
            fold_ratio=None if self.test else ratio,
        )

    def _fold_ratio(self, evaluation: CategoryEvaluation) -> float:
        """Folds share training products; a baseline is trained on none."""
        from visir.products.experiments.category_draws import fold_ratio

        trials = [trial for trials in evaluation.trials.values() for trial in trials]
        return 0.0 if self.baseline is not None else fold_ratio(trials)

    def _draws(self, evaluation: CategoryEvaluation, ratio: float) -> dict[str, Draws]:
        """Draws of the values of `_values`."""
        from visir.products.experiments.category_draws import error_draws, measure_draws, part_draws

        system, setting = evaluation.systems[0], evaluation.settings[0]
        trials = evaluation.trials[system, setting]
        if self.quantity == "measures":
            measures = measure_draws(trials, LABELS, ratio)
        elif self.quantity in ("seen", "unseen"):
            measures = part_draws(trials, LABELS, seen=self.quantity == "seen")
        elif self.quantity == "depths":
            return error_draws(trials)
        else:
            counts = {
                SETTINGS[name]: error_draws(evaluation.trials[system, name])[self.quantity]
                for name in evaluation.settings
            }
            total = {"Total": np.sum(list(counts.values()), axis=0)} if len(counts) == len(SETTINGS) else {}
            return {**counts, **total}
        return {f"{TASK_NAME} {label}": 100 * draws for label, draws in measures.items()}

    def _systems(self, catalogue: Catalogue, splits: list[Split], context: ExperimentContext) -> list[CategorySystem]:
        from visir.products.experiments.category_models import category_models
        from visir.products.model.recipe import find_categories_recipe, read_categories_recipe
        from visir.products.saved_models import trained_systems
        from visir.products.zero_shot import baseline

        if self.baseline is not None:
            of_first = (
                f":{system_of(None, self.training, context, self.describe())}" if self.training is not None else ""
            )
            with context.locks.process:
                return [baseline(self.baseline + of_first, catalogue)]
        folders = []
        for setting in self.settings:
            stem = str(self.recipe) if setting == "all" else f"{self.recipe}-{setting}"
            recipe = read_categories_recipe(find_categories_recipe(stem), self.set)
            folders += category_models(recipe, catalogue, splits, context)
        with context.locks.process:
            return list(trained_systems(folders, catalogue, splits))

    def _values(self, evaluation: CategoryEvaluation) -> tuple[dict[str, float], list[str]]:
        """The values by label, and notes on labels without a value."""
        from visir.products.first_answers import first_answers

        system, setting = evaluation.systems[0], evaluation.settings[0]
        if self.quantity == "measures":
            means = {label: evaluation.spread(system, setting, measure).mean for label, measure in LABELS.items()}
            return {f"{TASK_NAME} {label}": 100 * mean for label, mean in means.items()}, []
        if self.quantity in ("seen", "unseen"):
            parts = {label: evaluation.by_seen(system, setting, measure) for label, measure in LABELS.items()}
            if self.quantity not in parts["rprecision"]:
                return {}, [f"{TASK_NAME}: no query is a category that is {self.quantity}"]
            values = {f"{TASK_NAME} {label}": 100 * part[self.quantity][0] for label, part in parts.items()}
            counts = ", ".join(f"{number:,} {part}" for part, (_, number) in parts["rprecision"].items())
            return values, [f"queries: {counts}"]
        errors = {name: first_answers(evaluation.trials[system, name]).errors for name in evaluation.settings}
        if self.quantity == "depths":
            first = errors[setting]
            depths = {f"d = {d}": float(number) for d, number in first.depth_differences.items()}
            return {"same tree": float(first.same_tree), "different tree": float(first.different_tree), **depths}, []
        same = self.quantity == "same tree"
        values = {
            SETTINGS[name]: float(wrong.same_tree if same else wrong.different_tree) for name, wrong in errors.items()
        }
        return {**values, **({"Total": sum(values.values())} if len(values) == len(SETTINGS) else {})}, []

    def _provenance(self, evaluation: CategoryEvaluation) -> dict[str, str]:
        """The system, its encoders and its changes; a checkpoint by its recipe, because its own name is its path."""
        if self.training is not None:
            return {"system": f"{self.baseline}, {self.training.recipe}"}
        provenance = {"system": str(self.baseline or self.recipe)}
        for part, encoder in next(iter(evaluation.cards.values())).items():
            provenance[part if part == "reads" else f"encoder of {part}"] = str(encoder)
        return {**provenance, "set": ", ".join(self.set)} if self.set else provenance

    def _protocol(self, evaluation: CategoryEvaluation, splits: list[Split]) -> dict[str, str]:
        trials = [trial for trials in evaluation.trials.values() for trial in trials]
        galleries = {trial.task.fold.name: trial.task.gallery for trial in trials}
        queries = {
            setting: [len(trial.task.judgements()) for trial in evaluation.trials[evaluation.systems[0], setting]]
            for setting in evaluation.settings
        }
        return {
            "split": "; ".join(f"{split.name}: test" for split in splits),
            "relevance": _RIGHT[self.relevance],
            "candidates": "; ".join(f"{gallery.size:,} {gallery.description}" for gallery in galleries.values()),
            "queries": "; ".join(f"{setting}: {', '.join(map(str, counts))}" for setting, counts in queries.items()),
            "similarity": trials[0].result.protocol.similarity,
            **({"map@k": "over min(R, k)"} if self.quantity in ("measures", "seen", "unseen") else {}),
        }


def _notes(evaluation: CategoryEvaluation) -> list[str]:
    """The notes of all trials, fold by fold."""
    trials = [trial for trials in evaluation.trials.values() for trial in trials]
    return [f"{trial.task.setting}, {trial.task.fold.name}: {note}" for trial in trials for note in trial.result.notes]


@lru_cache(maxsize=2)
def _opened(source: str, images: str | None) -> Catalogue:
    from visir.products.opening import open_catalogue

    return open_catalogue(source, images=images)
