"""What perturbations cost for each value of a label of the queries: by language, by category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from visir.display import Tabular, brief, counted
from visir.errors import VisirError
from visir.evaluation.by_label import check_label, queries_by_value
from visir.evaluation.stress.effect import Effect, RsumChange, rsum_changes
from visir.records import Result


@dataclass(frozen=True)
class LabelledEffect:
    """The effect of one perturbation on the queries with one value of a label."""

    task: str  # the task
    perturbation: str  # the name of the perturbation
    title: str  # its title
    value: str  # the value, such as "de"; "(none)" for queries without one
    coverage: float  # the share of these queries that the perturbation changed, 0 to 1
    change: RsumChange  # how their rsum changed, unchanged queries included


@dataclass(frozen=True)
class StressByLabel(Tabular):
    """The effects of a stress study for each value of a label."""

    system: str  # the name of the system
    collection: str  # the name of the collection
    label: str  # the name of the label: "language"
    # One for each perturbation and value, in the order of the study and of the first query of each value.
    rows: tuple[LabelledEffect, ...]

    def __repr__(self) -> str:
        lines = [f"{row.perturbation}, {row.value}: {row.change.percent:+.1f} %" for row in self.rows]
        return brief(self, f"{self.system} by {self.label}: {counted(len(self.rows), 'rows')}", *lines)

    def __getitem__(self, name: tuple[str, str]) -> LabelledEffect:
        """The row of a perturbation and a value: `by["char_swap", "de"]`."""
        for row in self.rows:
            if (row.perturbation, row.value) == tuple(name):
                return row
        known = ", ".join(f"[{row.perturbation!r}, {row.value!r}]" for row in self.rows[:12])
        raise VisirError(f"there is no row {name!r}.", hint=f"there are {known}")


def effects_by_label(
    plain: Result, effects: Sequence[Effect], images: Mapping[str, str], label: str, *, seed: int = 0
) -> tuple[LabelledEffect, ...]:
    """Measure the effects on the queries of each value of a label, with 95 % intervals."""
    # Images are drawn with all their captions that have the value. There are no tests: an interval says how uncertain
    # each change is, and not whether two values differ.
    known = {name for labels in plain.labels.values() for name in labels.column_names[1:]}
    check_label(label, known, plain.protocol.collection)
    rows = []
    for task, labels in plain.labels.items():
        of_task = [effect for effect in effects if effect.outcome.task == task]
        if label not in labels.column_names or not of_task:
            continue
        queries = labels["query_id"].to_pylist()
        clusters = np.array([images.get(query, query) for query in queries])
        by_value = {}
        for value, chosen in queries_by_value(labels, label):
            after = [effect.after[chosen] for effect in of_task]
            by_value[value] = chosen, rsum_changes(of_task[0].before[chosen], after, clusters[chosen], seed=seed)
        for number, effect in enumerate(of_task):
            for value, (chosen, changes) in by_value.items():
                coverage = float(effect.outcome.changed[chosen].mean())
                rows.append(LabelledEffect(task, effect.name, effect.outcome.title, value, coverage, changes[number]))
    return tuple(rows)
