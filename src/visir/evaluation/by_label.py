"""The measures of a result for each value of a label of its queries: by category, by language."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.evaluation.clusters import clusters_of
from visir.evaluation.intervals import measure_interval
from visir.evaluation.measures import base_of
from visir.evaluation.measures.measure import aggregate
from visir.evaluation.significance import NO_INTERVAL
from visir.evaluation.typical_measures import typical_measures
from visir.records import GROUP, Result

UNLABELLED = "(none)"
"""The row of queries without a value."""


class LabelMean(NamedTuple):
    """A measure as `evaluate` prints it (of `median_rank` the median), its 95 % interval, and what chance reaches."""

    # NaN where there is none of these.

    mean: float  # the mean, or the median. A rank that is not known counts as one below the last.
    low: float  # the lower end
    high: float  # the upper end
    chance: float = float("nan")  # what chance reaches
    beyond: int = 0  # of how many queries the rank is not known, because nothing right is among the answers
    # The last rank that was looked at, where there are such queries: a median or an end behind it is not known.
    last: int | None = None

    def text(self, value: float, known: str) -> str:
        """A value as it is shown, such as "> 10" where it is not known."""
        return known if self.last is None or not value > self.last else f"> {self.last:,}"


@dataclass(frozen=True)
class LabelRow:
    """The measures of the queries with one value of a label."""

    task: str  # the task
    label: str  # the value, such as "colour"; "(none)" for queries without one
    queries: int  # the number of queries
    items: int  # the number of items, where several queries may be one (the label "group"); else that of queries
    values: Mapping[str, LabelMean]  # the measures by name


@dataclass(frozen=True)
class ByLabel(Tabular, Plotted, view="visir.reports.views.by_label"):
    """The measures of each value of a label."""

    system: str  # the name of the system
    label: str  # the name of the label: "category"
    measures: tuple[str, ...]  # the names of the measures
    rows: tuple[LabelRow, ...]  # one for each task and value, in the order of the first query of each value

    def __repr__(self) -> str:
        lines = [
            f"{row.task} {row.label}: "
            + ", ".join(
                f"{name} {value.text(value.mean, f'{value.mean:.4g}')}" for name, value in list(row.values.items())[:3]
            )
            for row in self.rows
        ]
        return brief(self, f"{self.system} by {self.label}: {counted(len(self.rows), 'rows')}", *lines)

    def __getitem__(self, name: str | tuple[str, str]) -> LabelRow:
        """The row of a value: `by["colour"]`, or `by["t2i", "colour"]` where there are several tasks."""
        task, label = name if isinstance(name, tuple) else ("", name)
        rows = [row for row in self.rows if row.label == label and task in ("", row.task)]
        if len(rows) != 1:
            known = [f"[{row.task!r}, {row.label!r}]" for row in self.rows]
            problem = f"there is no row {name!r}" if not rows else f"{name!r}: of which task?"
            raise VisirError(problem, hint=f"there are {', '.join(known[:12])}")
        return rows[0]


def by_label(result: Result, label: str, measures: Sequence[str] | None = None) -> ByLabel:
    """Measure the queries of each value of a label."""
    # The intervals are those of `visir.evaluation.intervals.measure_interval`; queries of one image, or of one item,
    # are one unit. A mean of ranks has no interval where some are not known.
    known = {name for labels in result.labels.values() for name in labels.column_names[1:]}
    check_label(label, known, result.protocol.collection)
    names = list(measures) if measures is not None else typical_measures(result)
    rows = []
    for task, labels in result.labels.items():
        if label not in labels.column_names:
            continue
        table = result.per_query[task]
        present = [name for name in names if name in table.column_names]
        clusters, chance = clusters_of(result, task), result.chance.get(task)
        deepest = {name: result.last_rank(task, name) for name in present}
        items = pc.fill_null(labels[GROUP], "") if GROUP in labels.column_names else labels["query_id"]
        for value, chosen in queries_by_value(labels, label):
            part = table.select(["query_id", *present]).take(pa.array(chosen))
            means = aggregate(part)
            values = {}
            for name in present:
                units = None if clusters is None else clusters[chosen]
                column, last = part[name].to_numpy(), deepest[name]
                beyond = 0 if last is None else int((column > last).sum())
                has_interval = not beyond or base_of(name) == "median_rank"
                low, high = measure_interval(name, column, units) if has_interval else NO_INTERVAL
                expected = float("nan")
                if chance is not None and name in chance.column_names:
                    expected = float(np.mean(chance[name].to_numpy()[chosen]))
                values[name] = LabelMean(means[name], low, high, expected, beyond, last if beyond else None)
            distinct = pc.count_distinct(items.take(pa.array(chosen))).as_py()
            rows.append(LabelRow(task, value, len(chosen), distinct, values))
    return ByLabel(result.system, label, tuple(names), tuple(rows))


def check_label(label: str, known: Collection[str], where: str) -> None:
    """Raise `VisirError` where no query has a label of this name."""
    if label not in known:
        problem = f"{where}: there is no label {label!r}." if known else f"{where}: no query has labels."
        own = "a table of captions says theirs in a column language; " if label == "language" else ""
        hint = nearest(label, sorted(known)) if known else f"{own}a task has labels: Task(…, labels=…)"
        raise VisirError(problem, hint=hint)


def queries_by_value(labels: pa.Table, label: str) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Each value of a label, in the order of the first query of each, with the rows of its queries."""
    column = pc.fill_null(labels[label], UNLABELLED).combine_chunks()
    for value in column.unique().to_pylist():
        yield value, np.flatnonzero(pc.equal(column, value).to_numpy(zero_copy_only=False))
