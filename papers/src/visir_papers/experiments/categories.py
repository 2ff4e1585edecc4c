"""Search products with the names of categories: chapter 7 of the thesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from visir.fingerprint import hash_json
from visir.products.evaluation import Trial, wrong_first_answers
from visir.products.task import TASK_NAME, Relevance, Setting
from visir.training.recipe import expand
from visir_papers.draws import (
    Draws,
    Means,
    TrendCheck,
    chance_of_order,
    few_units,
    listed_checks,
    unit_means,
    unit_sums,
)
from visir_papers.experiment import Experiment, ExperimentContext, Measurement
from visir_papers.experiments.train import PriorTraining, system_of

if TYPE_CHECKING:
    from visir.products.evaluation import CategoryEvaluation
    from visir.products.model import CategoriesRecipe
    from visir.products.systems import CategorySystem
    from visir.products.task import Split
    from visir.records.catalogue import Catalogue


# Draws of what an evaluation of categories measured: over folds, or over categories with all their folds.


def fold_ratio(trials: Sequence[Trial]) -> float:
    """Test size over training size, the mean over the folds, in products."""
    return float(np.mean([trial.task.fold.test.sum() / trial.task.fold.train.sum() for trial in trials]))


def measure_draws(trials: Sequence[Trial], labels: Mapping[str, str], ratio: float) -> dict[str, Draws]:
    """Draws of measures that are means over folds: of one fold over its categories, of several over the folds."""
    if len(trials) == 1:
        queries = trials[0].task.judgements().queries.to_pylist()
        return unit_means(queries, {label: trials[0].values(measure) for label, measure in labels.items()})
    values = np.array([[trial.mean(measure) for measure in labels.values()] for trial in trials])
    name = ", ".join(trial.task.fold.name for trial in trials)
    drawn = values.mean(axis=0) + few_units(values, 1 / len(trials) + ratio, name)
    return dict(zip(labels, drawn.T, strict=True))


def part_draws(trials: Sequence[Trial], labels: Mapping[str, str], *, seen: bool) -> dict[str, Draws]:
    """Draws of measures over the seen, or over the unseen, categories of all folds together."""
    queries = [query for trial in trials for query in trial.task.judgements().queries.to_pylist()]
    is_part = np.concatenate([trial.seen for trial in trials]) == seen
    values = {label: np.concatenate([trial.values(name) for trial in trials]) for label, name in labels.items()}
    return unit_means(queries, {label: np.where(is_part, numbers, np.nan) for label, numbers in values.items()})


def error_draws(trials: Sequence[Trial]) -> dict[str, Draws]:
    """Draws of counts of wrong first answers: "same tree", "different tree", and "d = -1" … of those in one tree."""
    wrong, tree = wrong_first_answers(trials), trials[0].task.tree
    error = wrong.targets != wrong.predicted
    same = error & tree.same_tree(wrong.targets, wrong.predicted)
    depths = np.zeros(len(wrong.rows), dtype=np.int64)
    depths[same] = tree.depth_differences(wrong.targets[same], wrong.predicted[same])
    kinds = {"same tree": same, "different tree": error & ~same}
    kinds |= {f"d = {d}": same & (depths == d) for d in np.unique(depths[same]).tolist()}
    columns = np.zeros((len(wrong.queries), len(kinds)))
    for column, kind in enumerate(kinds.values()):
        columns[wrong.rows[kind], column] = 1.0
    return dict(zip(kinds, unit_sums(wrong.queries, columns).T, strict=True))


# Category models that cells need: each trained once for all studies, resumed where it was stopped.


def category_models(
    recipe: CategoriesRecipe, catalogue: Catalogue, splits: Sequence[Split], context: ExperimentContext
) -> list[Path]:
    """The folders of the trained models, one for each split, in their order (`visir products train`)."""
    # A folder is named by the recipe, the catalogue and the split, so studies that need the same training share it. The
    # training runs in this process, on one thread, so that figures do not depend on the number of processors. Another
    # process that needs the same model waits.
    from visir.encoders.families import CHECKPOINT_FILE
    from visir.products.encoding import encode_catalogue
    from visir.products.training import train_categories
    from visir.storage import locked

    training = {"recipe": recipe.model_dump(mode="json"), "catalogue": catalogue.fingerprint}
    parent = context.shared / "categories" / f"{recipe.name}-{recipe.setting}-{hash_json(training)[:10]}"
    modalities = recipe.product.modalities
    folders = []
    for split in splits:
        folder = parent / split.name.replace(", ", "-").replace(" ", "-")
        waiting = f"{folder}: is being trained by another process; waiting for it"
        lock = folder.with_name(f"{folder.name}.lock")
        with context.locks.for_folder(folder), locked(lock, waiting=waiting, elsewhere="--out"):
            if not (folder / CHECKPOINT_FILE).is_file():
                with context.locks.process, _one_thread():
                    vectors = encode_catalogue(
                        catalogue,
                        image=recipe.encoders.image if "image" in modalities else None,
                        text=recipe.encoders.text,
                        titles="title" in modalities,
                        attributes="attributes" in modalities,
                        skip_broken=True,
                    )
                    train, validation = (vectors.keep_products(part) for part in (split.train, split.validation))
                    train_categories(recipe, train, validation, folder, resume=True)
        folders.append(folder)
    return folders


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Chapter 7: how far wrong first answers are from their targets in the tree of categories.

ALL, GENERAL, SPECIFIC = "all", "general", "specific"
_AGAINST = "the text says both"


@listed_checks
def figure_7_2(means: Means) -> Iterator[TrendCheck]:
    """Figure 7.2 (section 7.6.1), d = depth(c_p) − depth(c) of errors in one tree, sentence by sentence."""
    # Three sentences contradict something. For all categories c_p is "in 92% of the cases more general" and, two
    # sentences later, for "the majority" more specific: both are checked, and one of them fails. The two errors in the
    # same tree among most general categories have d = 2 and are called more general, where d > 0 is more specific by
    # the section's own definition, and two roots share no tree. And shares of most specific categories (68, 21, 7, 5 %,
    # 101 in all) leave none for d = 0, two categories side by side.
    if _errors(means.get(GENERAL, {})):
        general_means = means[GENERAL]
        sentence = "most general: some errors lie in the same tree (2 of 23; two roots share none)"
        yield TrendCheck(sentence, general_means["same tree"] > 0, _in_trees(general_means))
    for name, sentence, same in (
        (SPECIFIC, "most specific: most errors lie in another tree (89 %)", False),
        (ALL, "all: most errors lie in the same tree (72 %)", True),
    ):
        if _errors(values := means.get(name, {})):
            difference = values["same tree"] - values["different tree"]
            yield TrendCheck(sentence, difference > 0 if same else difference < 0, _in_trees(values))
    specific = _depths(means.get(SPECIFIC, {}))
    if specific:
        shares, whole = _shares(specific), sum(specific.values())
        falling = [specific.get(d, 0.0) for d in (-1, -2, -3, -4)]
        yield TrendCheck("most specific: most are one level more general (68 %)", 2 * falling[0] > whole, shares)
        statement = "most specific: fewer with every further level (68, 21, 7, 5 %)"
        falls = falling[0] > falling[1] and falling == sorted(falling, reverse=True)
        yield TrendCheck(statement, falls, shares, chance_of_order(len(falling)))
        statement = "most specific: none beside the target or below (shares leave none)"
        yield TrendCheck(statement, max(specific) < 0, shares)
        yield TrendCheck("most specific: |d| is 4 at most", max(map(abs, specific)) <= 4, shares)
    depths = _depths(means.get(ALL, {}))
    if depths:
        whole = sum(depths.values())
        general = sum(count for d, count in depths.items() if d < 0)
        lower = sum(count for d, count in depths.items() if d > 0)
        shares = (
            f"{100 * general / whole:.0f} % more general, {100 * lower / whole:.0f} % more specific; {_shares(depths)}"
        )
        yield TrendCheck(f"all: most are more general (92 %; {_AGAINST})", 2 * general > whole, shares)
        yield TrendCheck(f"all: most are more specific ({_AGAINST})", 2 * lower > whole, shares)


def _errors(values: Mapping[str, float]) -> float:
    return values.get("same tree", 0.0) + values.get("different tree", 0.0)


def _in_trees(values: Mapping[str, float]) -> str:
    return f"{values['same tree']:g} in the same tree, {values['different tree']:g} in another"


def _depths(values: Mapping[str, float]) -> dict[int, float]:
    """d → how many, ascending."""
    counts = {int(label.removeprefix("d = ")): count for label, count in values.items() if label.startswith("d = ")}
    return dict(sorted(counts.items()))


def _shares(depths: Mapping[int, float]) -> str:
    whole = sum(depths.values())
    return f"of {whole:g} with d = " + ", ".join(f"{d}: {100 * count / whole:.0f} %" for d, count in depths.items())


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
        system = self.baseline or f"visir products train {self.recipe}"
        system += f" by the checkpoint of {self.training.recipe}" if self.training else ""
        changes = f"{system}" + "".join(f" --set {change}" for change in self.set)
        return f"{changes} on {self.source}, {', '.join(self.settings)}"

    def measure(self, context: ExperimentContext) -> Measurement:
        from visir.products.evaluation import evaluate
        from visir.products.task import folds

        with context.locks.process:
            catalogue = _opened(expand(self.source), None if self.images is None else expand(self.images))
            whole = folds(catalogue, self.folds)
        splits = [whole[fold - 1] for fold in self.test or (context.seed % self.folds + 1,)]
        systems = self._systems(catalogue, splits, context)
        with context.locks.process:
            evaluation = evaluate(catalogue, systems, splits, settings=self.settings, relevance=self.relevance)
        values, notes = self._values(evaluation)
        trials = [trial for trials in evaluation.trials.values() for trial in trials]
        notes += [
            f"{each.task.setting}, {each.task.fold.name}: {note}" for each in trials for note in each.result.notes
        ]
        ratio = fold_ratio(trials) if self.baseline is None else 0.0  # folds share training products
        return Measurement(
            values,
            {**self._provenance(evaluation), "collection": catalogue.name, "fingerprint": catalogue.fingerprint[:12]},
            self._protocol(evaluation, splits),
            notes=tuple(notes),
            draws=self._draws(evaluation, ratio),
            fold_ratio=None if self.test else ratio,
        )

    def _draws(self, evaluation: CategoryEvaluation, ratio: float) -> dict[str, Draws]:
        """Draws of the values of `_values`."""

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
        from visir.products.model import find_categories_recipe, read_categories_recipe
        from visir.products.systems import baseline, trained_systems

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
        from visir.products.evaluation import first_answers

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


@lru_cache(maxsize=2)
def _opened(source: str, images: str | None) -> Catalogue:
    from visir.products.opening import open_catalogue

    return open_catalogue(source, images=images)
