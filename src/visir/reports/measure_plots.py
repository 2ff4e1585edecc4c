"""Measures and their differences as dots with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from visir.errors import VisirError
from visir.evaluation.clusters import clusters_of
from visir.evaluation.comparison import Comparison
from visir.evaluation.intervals import interval_of
from visir.records import Result
from visir.reports.svg import FAINT, MARKERS, SERIES, drawing
from visir.reports.table import one_line
from visir.reports.words import display, in_reading_order, task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def measure_dots(result: Result, measures: Sequence[str] | None = None) -> Plot:
    """The measures of each task in percent, with 95 % intervals over images (or queries)."""
    recall = result.protocol.recall
    fractions = [name for name in result.measures if display(name).scale == 100]
    named = [name for name in fractions if name.partition("@")[0] == recall] or fractions
    chosen = in_reading_order([name for name in measures if name in fractions] if measures else named, result.protocol)
    if not chosen:
        raise VisirError(
            f"{result.system}: no measure to draw.", hint=f"give some of measures=[…]: {', '.join(fractions) or 'none'}"
        )
    with drawing(5.8, 0.9 + 0.34 * len(chosen) * max(1, 0.6 * len(result.tasks))) as (figure, axes):
        for number, task in enumerate(result.tasks):
            shift = 0.22 * (number - (len(result.tasks) - 1) / 2)
            for place, name in enumerate(chosen):
                if name not in result.per_query[task].column_names:
                    continue
                values, units = result.values(task, name), clusters_of(result, task)
                known = np.isfinite(values)
                if not known.any():
                    continue
                values = values[known]
                low, high = interval_of(values, None if units is None else units[known])
                middle, colour = 100 * float(values.mean()), SERIES[number % len(SERIES)]
                axes.plot([100 * low, 100 * high], [place + shift] * 2, color=colour, linewidth=1.6)
                axes.plot(middle, place + shift, MARKERS[number % len(MARKERS)], color=colour, markersize=5.5)
            axes.plot(
                [], [], MARKERS[number % len(MARKERS)], color=SERIES[number % len(SERIES)], label=task_words(task)
            )
        axes.set_yticks(range(len(chosen)), [_name(name, recall) for name in chosen])
        axes.set_ylim(len(chosen) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel("percent, with 95 % intervals")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_title(one_line(f"{result.system} on {result.protocol.collection}"), loc="left")
        if len(result.tasks) > 1:
            axes.legend(loc="best")
        return figure


def difference_dots(comparison: Comparison) -> Plot:
    """The differences to the baseline in percentage points, with 95 % intervals; those that are significant are
    filled."""
    # Measures that are no fractions (ranks, gains) have another unit and are left out.
    shown = [entry for entry in comparison.differences if display(entry.measure).scale == 100]
    if not shown:
        raise VisirError("no difference is of a measure that is a fraction.", hint="compare by hit@1, recall@10, …")
    rows = list(dict.fromkeys((entry.task, entry.measure) for entry in shown))
    systems = comparison.systems[1:]
    with drawing(6.2, 0.9 + 0.34 * len(rows) * max(1, 0.6 * len(systems))) as (figure, axes):
        for entry in shown:
            number = systems.index(entry.system)
            place = rows.index((entry.task, entry.measure)) + 0.22 * (number - (len(systems) - 1) / 2)
            colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
            if not isnan(entry.low):
                axes.plot([100 * entry.low, 100 * entry.high], [place, place], color=colour, linewidth=1.6)
            is_significant = entry.p_corrected < 0.05
            axes.plot(
                *(100 * entry.difference, place),
                marker,
                color=colour,
                markersize=5.5,
                fillstyle="full" if is_significant else "none",
                markeredgewidth=1.4,
            )
        for number, system in enumerate(systems):
            label = one_line(system)
            axes.plot([], [], MARKERS[number % len(MARKERS)], color=SERIES[number % len(SERIES)], label=label)
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_yticks(range(len(rows)), [f"{task_words(task)}  {measure}" for task, measure in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("percentage points, 95 % intervals (filled: corrected p < 0.05)")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_title(one_line(f"against {comparison.systems[0]}"), loc="left")
        if len(systems) > 1:
            axes.legend(loc="best")
        return figure


def _name(measure: str, recall: str) -> str:
    base, _, cutoff = measure.partition("@")
    return f"R@{cutoff}" if base == recall and cutoff else measure
