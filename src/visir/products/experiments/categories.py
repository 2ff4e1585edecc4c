"""Search products with the names of categories: chapter 7 of the thesis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from visir.products.relevance import Setting
from visir.products.task import TASK_NAME, Relevance
from visir.studies.experiment import Experiment, ExperimentContext, Measurement
from visir.studies.shared_training import PriorTraining, system_of
from visir.training.recipe import expand

if TYPE_CHECKING:
    from visir.products.evaluate import CategoryEvaluation
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
"""Label of Tables 7.1 and 7.3 → measure; mAP@k is read as in `visir.products.evaluate`, over min(R, k)."""
_RIGHT: dict[Relevance, str] = {
    "path": "a product is right for every category on its path",
    "drawn": "a product is right for the category that stands for it in the setting (drawn for all categories, seed 0)",
}


class CategoriesExperiment(Experiment):
    """A system on test products of a catalogue (`visir categories evaluate`).

    - `source`, `images`: the catalogue
    - `baseline`: "bm25", "text:NAME", "clip:NAME"; "clip" with `training`, a training of `visir train` whose checkpoint
      is meant; or `recipe`: of `visir categories train`, without the setting at the end of its name, `set` its changes
    - `settings`: in which it is asked; a model is trained for each
    - `quantity`: "measures", the labels of Table 7.1; "seen", "unseen", the same of these categories only; "same tree",
      "different tree", how many first answers are wrong and lie there (labels as the rows of Table 7.2); "depths",
      both, and of those in the same tree how many have which d = depth(c_p) − depth(c) ("d = -1", …)
    - `relevance`: see `visir.products.task.category_task`; "drawn" where errors are counted, because section 7.6.1 calls it
      an error when c_p is not c
    - `folds`: into how many the products are cut; `test`: which are tested in this cell, one after another, from 1;
      without it, the one of the cell's seed (seed 0 is fold 1). Trainings and draws have seed 0 in every fold.

    Of several folds measures are means over folds, seen and unseen ones over all queries together (some folds have no
    unseen category), and counts are sums.
    """

    experiment: Literal["categories"] = "categories"
    source: str
    images: str | None = None
    baseline: str | None = None
    training: PriorTraining | None = None
    recipe: str | None = None
    set: tuple[str, ...] = ()
    settings: Annotated[tuple[Setting, ...], Field(min_length=1)] = ("all", "general", "specific")
    quantity: Literal["measures", "seen", "unseen", "same tree", "different tree", "depths"] = "measures"
    relevance: Relevance = "path"
    folds: Annotated[int, Field(ge=2)] = 5
    test: tuple[Annotated[int, Field(ge=1)], ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> CategoriesExperiment:
        if (self.baseline is None) == (self.recipe is None):
            raise ValueError("name either a baseline or a recipe")
        if len(self.settings) > 1 and self.quantity not in ("same tree", "different tree"):
            raise ValueError(f"{self.quantity}: one setting in each cell")
        if any(one > self.folds for one in self.test):
            raise ValueError(f"test: there are {self.folds} folds")
        return self

    def describe(self) -> str:
        """See `Experiment.describe`."""
        system = self.baseline or f"visir categories train {self.recipe}"
        system += f" by the checkpoint of {self.training.recipe}" if self.training else ""
        said = f"{system}" + "".join(f" --set {one}" for one in self.set)
        return f"{said} on {self.source}, {', '.join(self.settings)}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.products.evaluate import evaluate
        from visir.products.split import folds

        with context.locks.process:
            catalogue = _opened(expand(self.source), None if self.images is None else expand(self.images))
            whole = folds(catalogue, self.folds)
        splits = [whole[one - 1] for one in self.test or (context.seed % self.folds + 1,)]
        systems = self._systems(catalogue, splits, context)
        with context.locks.process:
            found = evaluate(catalogue, systems, splits, settings=self.settings, relevance=self.relevance)
        values, notes = self._values(found)
        return Measurement(
            values,
            {**self._ran(found), "collection": catalogue.name, "fingerprint": catalogue.fingerprint[:12]},
            self._protocol(found, splits),
            notes=(*notes, *_notes(found)),
        )

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

    def _values(self, found: CategoryEvaluation) -> tuple[dict[str, float], list[str]]:
        """By label, and what is to be said of labels that are not there."""
        from visir.products.errors import first_answers

        system, setting = found.systems[0], found.settings[0]
        if self.quantity == "measures":
            return {f"{TASK_NAME} {one}": 100 * found.spread(system, setting, LABELS[one]).mean for one in LABELS}, []
        if self.quantity in ("seen", "unseen"):
            parts = {one: found.by_seen(system, setting, LABELS[one]) for one in LABELS}
            if self.quantity not in parts["rprecision"]:
                return {}, [f"{TASK_NAME}: no {self.quantity} category is asked for"]
            values = {f"{TASK_NAME} {one}": 100 * part[self.quantity][0] for one, part in parts.items()}
            counts = ", ".join(f"{number:,} {part}" for part, (_, number) in parts["rprecision"].items())
            return values, [f"queries: {counts}"]
        errors = {one: first_answers(found.trials[system, one]).errors for one in found.settings}
        if self.quantity == "depths":
            one = errors[setting]
            depths = {f"d = {d}": float(number) for d, number in one.depth_differences.items()}
            return {"same tree": float(one.same_tree), "different tree": float(one.different_tree), **depths}, []
        same = self.quantity == "same tree"
        values = {SETTINGS[one]: float(e.same_tree if same else e.different_tree) for one, e in errors.items()}
        return {**values, **({"Total": sum(values.values())} if len(values) == len(SETTINGS) else {})}, []

    def _ran(self, found: CategoryEvaluation) -> dict[str, str]:
        """The system, its encoders and its changes; a checkpoint by its recipe, for its own name is its path."""
        if self.training is not None:
            return {"system": f"{self.baseline}, {self.training.recipe}"}
        said = {"system": str(self.baseline or self.recipe)}
        for part, encoder in next(iter(found.cards.values())).items():
            said[part if part == "reads" else f"encoder of {part}"] = str(encoder)
        return {**said, "set": ", ".join(self.set)} if self.set else said

    def _protocol(self, found: CategoryEvaluation, splits: list[Split]) -> dict[str, str]:
        trials = [one for trials in found.trials.values() for one in trials]
        tasks = {one.task.fold.name: one.task for one in trials}
        queries = {
            setting: [len(trial.task.judgements()) for trial in found.trials[found.systems[0], setting]]
            for setting in found.settings
        }
        return {
            "split": "; ".join(f"{one.name}: test" for one in splits),
            "relevance": _RIGHT[self.relevance],
            "candidates": "; ".join(f"{one.gallery.size:,} {one.gallery.description}" for one in tasks.values()),
            "queries": "; ".join(f"{one}: {', '.join(map(str, counts))}" for one, counts in queries.items()),
            "similarity": trials[0].result.protocol.similarity,
            **({"map@k": "over min(R, k)"} if self.quantity in ("measures", "seen", "unseen") else {}),
        }


def _notes(found: CategoryEvaluation) -> list[str]:
    """What was not found, fold by fold."""
    trials = [one for trials in found.trials.values() for one in trials]
    return [f"{one.task.setting}, {one.task.fold.name}: {note}" for one in trials for note in one.result.notes]


@lru_cache(maxsize=2)
def _opened(source: str, images: str | None) -> Catalogue:
    from visir.products.open import open_catalogue

    return open_catalogue(source, images=images)
