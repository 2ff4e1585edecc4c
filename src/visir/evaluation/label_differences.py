"""How far the values of a label are apart: one language against another, over the images that both have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, nearest
from visir.evaluation.by_label import UNLABELLED
from visir.evaluation.clusters import clusters_of
from visir.evaluation.intervals import difference_interval, share_interval
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
    of_value = {value: (measured[column == value], units[column == value]) for value in values}
    pairs = list(itertools.combinations(values, 2))
    compared = [value_difference(*of_value[a], *of_value[b]) for a, b in pairs]
    p_values = corrected([outcome[-1] for outcome in compared])
    rows = []
    for (a, b), (number, paired, first, second, low, high, _), p in zip(pairs, compared, p_values, strict=True):
        rows.append(LabelDifference(task, a, b, number, paired, first, second, low, high, float(p)))
        rows.append(LabelDifference(task, b, a, number, paired, second, first, -high, -low, float(p)))
    return rows


def value_difference(
    values: Floats, units: NDArray[np.int64], other_values: Floats, other_units: NDArray[np.int64]
) -> tuple[int, bool, float, float, float, float, float]:
    """Compare the queries of two values of a label.

    Two independent samples are compared by Welch's test. Its interval is too narrow for shares near 0 and 1; that of
    two shares is put together from Wilson's intervals of both (Newcombe 1998, method 10).

    Args:
        values: (n,) the measure of the queries of the first value.
        units: (n,) the image of each, as a number.
        other_values: (m,) the measure of the queries of the second value.
        other_units: (m,) the image of each.

    Returns:
        (units, paired, mean, other mean, low, high, p), p not corrected; NaN where there is no interval, or no test.

    Example:
        >>> value_difference(np.ones(3), np.arange(3), np.zeros(3), np.arange(3))[:4]
        (3, True, 1.0, 0.0)
    """
    size = int(max(units.max(), other_units.max())) + 1
    samples = [(values, units), (other_values, other_units)]
    sums = [np.bincount(own, of_queries, size).astype(np.float64) for of_queries, own in samples]
    counts = [np.bincount(own, minlength=size).astype(np.float64) for _, own in samples]
    common = (counts[0] > 0) & (counts[1] > 0)
    number = int(common.sum())
    if number > 1 and 2 * number >= min((count > 0).sum() for count in counts):
        first, second = (total[common] / count[common] for total, count in zip(sums, counts, strict=True))
        outcome, (low, high) = paired_t(first - second), difference_interval(first, second)
        return number, True, float(first.mean()), float(second.mean()), low, high, outcome.p
    number = int(sum((count > 0).sum() for count in counts))
    means = [float(of_queries.mean()) for of_queries, _ in samples]
    low, high, p = _welch(
        means[0] - means[1], [(total[count > 0], count[count > 0]) for total, count in zip(sums, counts, strict=True)]
    )
    if all(np.isin(of_queries, (0.0, 1.0)).all() for of_queries, _ in samples):
        low, high = _newcombe(means, [share_interval(*sample) for sample in samples])
    return number, False, means[0], means[1], low, high, p


def _newcombe(shares: Sequence[float], ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The interval of the difference of two independent shares, from their intervals."""
    (low, high), (other_low, other_high) = ends
    difference = shares[0] - shares[1]
    below = float(np.hypot(shares[0] - low, other_high - shares[1]))
    above = float(np.hypot(high - shares[0], shares[1] - other_low))
    return difference - below, difference + above


def _welch(difference: float, samples: Sequence[tuple[Floats, Floats]]) -> tuple[float, float, float]:
    """(low, high, p) of Welch's test of two samples of units; NaN for a single unit, and where neither has a spread."""
    from scipy.special import stdtr, stdtrit

    if any(len(sums) < 2 for sums, _ in samples):
        return nan, nan, nan
    errors = [mean_and_error(sums, counts) for sums, counts in samples]
    squares = [(error**2, freedom) for _, error, freedom in errors]
    error = float(np.sqrt(sum(square for square, _ in squares)))
    if error <= 1e-12 * max(1.0, abs(difference)):
        return nan, nan, nan
    freedom = error**4 / sum(square**2 / free for square, free in squares)
    half = float(stdtrit(freedom, 0.975)) * error
    return difference - half, difference + half, float(2 * stdtr(freedom, -abs(difference) / error))
