"""How far the values of a label are apart: one language against another, over the images that both have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.evaluation.by_label import UNLABELLED
from visir.evaluation.clusters import clusters_of
from visir.evaluation.intervals import difference_interval
from visir.evaluation.significance import corrected, mean_and_error, paired_t
from visir.records import Result

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelDifference:
    """One value of a label against another.

    Attributes:
        task: The task.
        first: A value: "de".
        second: The value that it is compared with: "en".
        units: How many images (or queries) the difference is taken over.
        paired: Whether both values have queries of these same images.
        first_mean: The mean of the measure over the units of the first value.
        second_mean: Likewise of the second.
        low: The 95 % interval of the difference, its lower end; NaN where there is none.
        high: Its upper end.
        p: The p-value, corrected for all pairs of the task (Holm); NaN where it cannot be tested.
    """

    task: str
    first: str
    second: str
    units: int
    paired: bool
    first_mean: float
    second_mean: float
    low: float
    high: float
    p: float

    @property
    def difference(self) -> float:
        """The mean of the first value minus that of the second."""
        return self.first_mean - self.second_mean


@dataclass(frozen=True)
class LabelDifferences(Tabular, Plotted, view="visir.reports.views.label_differences"):
    """The differences between all values of a label.

    Attributes:
        system: The name of the system.
        label: The name of the label: "language".
        measure: The name of the measure.
        reference: The value that the table compares all others with.
        values: The values, in the order of their first queries.
        rows: One for each task and pair of values.
    """

    system: str
    label: str
    measure: str
    reference: str
    values: tuple[str, ...]
    rows: tuple[LabelDifference, ...]

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
    """Compare all values of a label with each other.

    Captions of one image in two languages are a pair: the difference is taken within each image, and the interval is
    that of its mean over the images which both languages have. So photos that are hard in every language do not widen
    it. Values that share less than half of their images (categories, as a rule) are compared as two independent
    samples.

    Args:
        result: The result, with labels.
        label: The name of the label.
        measure: The name of a column of the result.
        reference: The value that the table compares the others with; None takes "en" where it is a value, or else the
            first.

    Raises:
        VisirError: No task has such a label, or the reference is no value of it.
    """
    rows: list[LabelDifference] = []
    seen: dict[str, None] = {}
    for task, labels in result.labels.items():
        if label not in labels.column_names or measure not in result.per_query[task].column_names:
            continue
        column = pc.fill_null(labels[label], UNLABELLED).combine_chunks().to_numpy(zero_copy_only=False)
        values = list(dict.fromkeys(column.tolist()))
        seen |= dict.fromkeys(values)
        if len(values) > 1:
            rows += _rows_of(
                task, column, values, result.per_query[task][measure].to_numpy(), clusters_of(result, task)
            )
    names = list(seen)
    if len(names) < 2:
        known = sorted({name for labels in result.labels.values() for name in labels.column_names[1:]})
        problem = f"{result.system}: no two values of a label {label!r} were measured by {measure}."
        raise VisirError(problem, hint=nearest(label, known) if known else "labels come with the task")
    if reference is None:
        reference = "en" if "en" in names else names[0]
    if reference not in names:
        raise VisirError(f"{result.system}: no {label} is {reference!r}", hint=nearest(reference, names))
    return LabelDifferences(result.system, label, measure, reference, tuple(names), tuple(rows))


def _rows_of(
    task: str, column: NDArray[np.object_], values: Sequence[str], measured: Floats, clusters: NDArray[np.int64] | None
) -> list[LabelDifference]:
    """Both directions of every pair of values of one task."""
    units = np.arange(len(column)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    size = int(units.max(initial=0)) + 1
    counts = {value: np.bincount(units[column == value], minlength=size).astype(np.float64) for value in values}
    sums: dict[str, Floats] = {
        value: np.bincount(units[column == value], measured[column == value], size).astype(np.float64)
        for value in values
    }
    pairs = list(itertools.combinations(values, 2))
    compared = [_compared(sums[a], counts[a], sums[b], counts[b]) for a, b in pairs]
    p_values = corrected([outcome[-1] for outcome in compared])
    rows = []
    for (a, b), (number, paired, first, second, low, high, _), p in zip(pairs, compared, p_values, strict=True):
        rows.append(LabelDifference(task, a, b, number, paired, first, second, low, high, float(p)))
        rows.append(LabelDifference(task, b, a, number, paired, second, first, -high, -low, float(p)))
    return rows


def _compared(
    sums: Floats, counts: Floats, other_sums: Floats, other_counts: Floats
) -> tuple[int, bool, float, float, float, float, float]:
    """(units, paired, mean, other mean, low, high, p) of two values."""
    common = (counts > 0) & (other_counts > 0)
    number = int(common.sum())
    if number > 1 and 2 * number >= min((counts > 0).sum(), (other_counts > 0).sum()):
        first, second = sums[common] / counts[common], other_sums[common] / other_counts[common]
        outcome, (low, high) = paired_t(first - second), difference_interval(first, second)
        return number, True, float(first.mean()), float(second.mean()), low, high, outcome.p
    from scipy.stats import t as student

    means: list[float] = []
    errors: list[float] = []
    freedoms: list[float] = []
    for total, size in ((sums, counts), (other_sums, other_counts)):
        present = size > 0
        if present.sum() < 2:
            share = float(total.sum() / size.sum())
            means, errors, freedoms = [*means, share], [*errors, float("nan")], [*freedoms, 1.0]
            continue
        if np.ptp(total[present] / size[present]) == 0:  # all alike: no error
            means, errors, freedoms = [*means, float(total.sum() / size.sum())], [*errors, 0.0], [*freedoms, 1.0]
            continue
        mean, error, freedom = mean_and_error(total[present], size[present])
        means, errors, freedoms = [*means, mean], [*errors, error], [*freedoms, freedom]
    units = int((counts > 0).sum() + (other_counts > 0).sum())
    squares = [error**2 for error in errors]
    error = float(np.sqrt(sum(squares)))
    difference = means[0] - means[1]
    if not np.isfinite(error) or error == 0:
        return units, False, means[0], means[1], float("nan"), float("nan"), float("nan")
    freedom = sum(squares) ** 2 / sum(s**2 / f for s, f in zip(squares, freedoms, strict=True))  # Welch
    half = float(student.ppf(0.975, freedom)) * error
    p = float(2 * student.sf(abs(difference) / error, freedom))
    return units, False, means[0], means[1], difference - half, difference + half, p
