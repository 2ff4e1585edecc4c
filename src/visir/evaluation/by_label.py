"""The measures of a result for each value of a label of its queries: by category, by language."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.evaluation.folds import clusters_of
from visir.evaluation.measures import aggregate, base_of, bounds_of, measure_estimate
from visir.evaluation.scoring import typical_measures
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
class ByLabel(Tabular, Plotted):
    """The measures of each value of a label."""

    system: str  # the name of the system
    label: str  # the name of the label: "category"
    measures: tuple[str, ...]  # the names of the measures
    rows: tuple[LabelRow, ...]  # one for each task and value, in the order of the first query of each value
    recall: str = "hit"  # what R@k means

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
    # The intervals are those of `measure_estimate`; queries of one image, or of one item,
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
                low, high = measure_estimate(name, column, units).ends if has_interval else stats.NO_INTERVAL
                expected = float("nan")
                if chance is not None and name in chance.column_names:
                    expected = float(np.mean(chance[name].to_numpy()[chosen]))
                values[name] = LabelMean(means[name], low, high, expected, beyond, last if beyond else None)
            distinct = pc.count_distinct(items.take(pa.array(chosen))).as_py()
            rows.append(LabelRow(task, value, len(chosen), distinct, values))
    return ByLabel(result.system, label, tuple(names), tuple(rows), result.protocol.recall)


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


# How far the values of a label are apart: one language against another, over the images that both have.

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelDifference:
    """One value of a label against another."""

    task: str  # the task
    first: str  # a value: "de"
    second: str  # the value that it is compared with: "en"
    units: int  # how many images (or queries) the difference is taken over
    paired: bool  # whether both values have queries of these same images
    first_mean: float  # the mean of the measure over the units of the first value
    second_mean: float  # likewise of the second
    low: float  # the 95 % interval of the difference, its lower end; NaN where there is none
    high: float  # its upper end
    p: float  # the p-value, corrected for all pairs of the task (Holm); NaN where it cannot be tested
    beyond: int = 0  # of how many queries of both values the rank is not known; then there is no p

    @property
    def difference(self) -> float:
        """The mean of the first value minus that of the second."""
        return self.first_mean - self.second_mean


@dataclass(frozen=True)
class LabelDifferences(Tabular, Plotted):
    """The differences between all values of a label."""

    system: str  # the name of the system
    label: str  # the name of the label: "language"
    measure: str  # the name of the measure
    reference: str  # the value that the table compares all others with
    values: tuple[str, ...]  # the values, in the order of their first queries
    rows: tuple[LabelDifference, ...]  # one for each task and pair of values

    def __repr__(self) -> str:
        lines = [
            f"{row.task} {row.first} − {row.second}: {row.difference:+.4g} ({row.low:.4g} to {row.high:.4g})"
            for row in self.rows
            if row.second == self.reference
        ]
        return brief(self, f"{self.system}, {self.measure} by {self.label}: {counted(len(self.rows), 'pairs')}", *lines)

    def __getitem__(self, pair: tuple[str, str] | tuple[str, str, str]) -> LabelDifference:
        """The difference of two values: `differences["de", "en"]`, or `["t2i", "de", "en"]` with several tasks."""
        *task, first, second = pair
        rows = [
            row for row in self.rows if (row.first, row.second) == (first, second) and row.task in (task or self.tasks)
        ]
        if len(rows) != 1:
            problem = f"there is no pair {pair!r}" if not rows else f"{pair!r}: of which task?"
            raise VisirError(problem, hint=f"values: {', '.join(self.values)}; tasks: {', '.join(self.tasks)}")
        return rows[0]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have the label."""
        return tuple(dict.fromkeys(row.task for row in self.rows))


def label_differences(result: Result, label: str, measure: str, reference: str | None = None) -> LabelDifferences:
    """Compare all values of a label with each other."""
    # Captions of one image in two languages are a pair: the difference is taken within each image, and the interval is
    # that of its mean over the images which both languages have. So photos that are hard in every language do not widen
    # it. Values that share less than half of their images (categories, as a rule) are compared as two independent
    # samples. Before the correction for all pairs, p is below 5 % exactly where the interval leaves out 0
    # (`visir.stats.difference`). Of `mean_rank` p is that of the logarithms of ranks, and there is no interval;
    # where a rank is not known, because nothing right is among the answers, there is no p either.
    if base_of(measure) == "median_rank":
        problem = f"{measure!r}: the difference of two medians has no test"
        raise VisirError(problem, hint="take 'mean_rank' or 'mrr'")
    rows: list[LabelDifference] = []
    seen: dict[str, None] = {}
    for task, labels in result.labels.items():
        if label not in labels.column_names or measure not in result.per_query[task].column_names:
            continue
        column = pc.fill_null(labels[label], UNLABELLED).combine_chunks().to_numpy(zero_copy_only=False)
        values = list(dict.fromkeys(column.tolist()))
        seen |= dict.fromkeys(values)
        if len(values) > 1:
            measured, clusters = result.per_query[task][measure].to_numpy(), clusters_of(result, task)
            last = result.last_rank(task, measure)
            rows += _rows_of(task, measure, column, values, measured, clusters, last=last)
    names = list(seen)
    if len(names) < 2:
        known = sorted({name for labels in result.labels.values() for name in labels.column_names[1:]})
        problem = f"{result.system}: no two values of a label {label!r} were measured by {measure}."
        raise VisirError(problem, hint=nearest(label, known) if known else "labels come with the task")
    if reference is None:
        reference = "en" if "en" in names else names[0]
    if reference not in names:
        raise VisirError(
            f"{result.system}: no {label} is {reference!r}", hint=nearest(reference, names), code="no-such-row"
        )
    return LabelDifferences(result.system, label, measure, reference, tuple(names), tuple(rows))


def _rows_of(
    task: str,
    measure: str,
    column: NDArray[np.object_],
    values: Sequence[str],
    measured: Floats,
    clusters: NDArray[np.int64] | None,
    *,
    last: int | None = None,
) -> list[LabelDifference]:
    """Both directions of every pair of values of one task."""
    units = np.arange(len(column)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    of_value = {value: (measured[column == value], units[column == value]) for value in values}
    pairs = list(itertools.combinations(values, 2))
    of_ranks, bounds = base_of(measure) == "mean_rank", bounds_of(measure)
    compared = [value_difference(*of_value[a], *of_value[b], of_ranks=of_ranks, bounds=bounds) for a, b in pairs]
    unknown = {value: 0 if last is None else int((own > last).sum()) for value, (own, _) in of_value.items()}
    beyond = [unknown[a] + unknown[b] for a, b in pairs]
    p_values = stats.adjust(
        [nan if queries else outcome[-1] for queries, outcome in zip(beyond, compared, strict=True)]
    )
    rows = []
    for (a, b), outcome, queries, p in zip(pairs, compared, beyond, p_values, strict=True):
        number, paired, first, second, low, high, _ = outcome
        rows.append(LabelDifference(task, a, b, number, paired, first, second, low, high, float(p), queries))
        rows.append(LabelDifference(task, b, a, number, paired, second, first, -high, -low, float(p), queries))
    return rows


def value_difference(
    values: Floats,
    units: NDArray[np.int64],
    other_values: Floats,
    other_units: NDArray[np.int64],
    *,
    of_ranks: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[int, bool, float, float, float, float, float]:
    """Compare the queries of two values of a label; the interval leaves out 0 exactly where p is below 5 %."""
    # values: (n,) the measure of the queries of the first value.
    # units: (n,) the image of each, as a number.
    # other_values: (m,) the measure of the queries of the second value.
    # other_units: (m,) the image of each.
    # bounds: between which values the measure lies.
    # Returns: (units, paired, mean, other mean, low, high, p), p not corrected; NaN where there is no interval, or no
    # test.
    size = int(max(units.max(), other_units.max())) + 1
    samples = [(values, units), (other_values, other_units)]
    counts = [np.bincount(own, minlength=size).astype(np.float64) for _, own in samples]
    common = (counts[0] > 0) & (counts[1] > 0)
    number = int(common.sum())
    paired = number > 1 and 2 * number >= min(int((count > 0).sum()) for count in counts)

    def of_images(transform: Callable[[Floats], Floats]) -> list[Floats]:
        """The mean of each common image, for both values."""
        sums = [np.bincount(own, transform(of_queries), size) for of_queries, own in samples]
        return [total[common] / count[common] for total, count in zip(sums, counts, strict=True)]

    scale = np.log if of_ranks else np.asarray
    if paired:
        mean, other_mean = (float(side.mean()) for side in of_images(np.asarray))
        first, second = of_images(scale)
        tested = stats.difference(first, second, test="inverted", bounds=bounds)
    else:
        number = int(sum((count > 0).sum() for count in counts))
        mean, other_mean = float(values.mean()), float(other_values.mean())
        first, second = scale(values), scale(other_values)
        tested = stats.difference(first, second, (units, other_units), paired=False, bounds=bounds)
    if not of_ranks:
        return number, paired, mean, other_mean, tested.low, tested.high, tested.p
    # The ranks and their logarithms may point in opposite directions.
    is_clear = (first.mean() - second.mean()) * (mean - other_mean) >= 0
    return number, paired, mean, other_mean, nan, nan, tested.p if is_clear else nan
