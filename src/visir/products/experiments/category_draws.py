"""Draws of what an evaluation of categories measured: over folds, or over categories with all their folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from visir.products.evaluation import Trial
from visir.products.first_answers import wrong_first_answers
from visir.studies.draws import Draws, few_units, unit_means, unit_sums


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
