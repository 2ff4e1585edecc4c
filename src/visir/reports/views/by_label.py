"""The measures by label: a table with intervals, and a plot."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.evaluation.by_label import ByLabel, LabelMean
from visir.reports.page import Block
from visir.reports.plots import MARKERS, SERIES, drawing
from visir.reports.table import Cell, Column, Table, between, one_line
from visir.reports.words import display, task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(shown: ByLabel) -> list[Block]:
    """The table."""
    return [table(shown)]


def table(shown: ByLabel) -> Table:
    """One row for each task and value: queries, and each measure with its 95 % interval and what chance reaches."""
    in_items = any(row.items != row.queries for row in shown.rows)
    columns = [Column("task"), Column(shown.label), Column("queries", 0), *([Column("items", 0)] if in_items else [])]
    by_chance = {name: any(name in row.values and not isnan(row.values[name].chance) for row in shown.rows)
                 for name in shown.measures}  # fmt: skip
    for name in shown.measures:
        columns += [Column(name, display(name).digits), Column("95 % interval")]
        columns += [Column("chance", display(name).digits)] if by_chance[name] else []
    rows: list[list[Cell]] = []
    for row in shown.rows:
        cells: list[Cell] = [task_words(row.task), row.label, row.queries, *([row.items] if in_items else [])]
        for name in shown.measures:
            column, scale, value = Column(name, display(name).digits), display(name).scale, row.values.get(name)
            shown_values: list[Cell] = [None, None, None]
            if value is not None:
                interval = between(scale * value.low, scale * value.high, column)
                shown_values = [scale * value.mean, interval, scale * value.chance]
                if value.last is not None:
                    shown_values[:2] = _with_unknown_ranks(value, row.queries, column)
            cells += shown_values if by_chance[name] else shown_values[:2]
        rows.append(cells)
    return Table.of(columns, rows, caption=f"{shown.system} by {shown.label}")


def _with_unknown_ranks(value: LabelMean, queries: int, column: Column) -> list[Cell]:
    """The median or mean of ranks, some of which are not known, with their count, and its interval."""
    mean = value.text(value.mean, column.text(value.mean))
    low, high = (value.text(end, column.text(end)) for end in (value.low, value.high))
    interval = between(value.low, value.high, column) if isnan(value.low) else low if low == high else f"{low} … {high}"
    return [f"{mean} ({value.beyond:,} of {queries:,} beyond {value.last:,})", interval]


def arrow(shown: ByLabel) -> pa.Table:
    """One row for each task and value, and each measure with `_low`, `_high`, `_chance`, and `_beyond` if any is."""
    columns: dict[str, pa.Array] = {
        "task": pa.array([row.task for row in shown.rows], pa.string()),
        shown.label: pa.array([row.label for row in shown.rows], pa.string()),
        "queries": pa.array([row.queries for row in shown.rows], pa.int64()),
        "items": pa.array([row.items for row in shown.rows], pa.int64()),
    }
    for name in shown.measures:
        values = [row.values.get(name) for row in shown.rows]
        for ending, place in (("", 0), ("_low", 1), ("_high", 2), ("_chance", 3)):
            numbers = [None if value is None else value[place] for value in values]
            columns[f"{name}{ending}"] = pa.array(numbers, pa.float64())
        unknown = [None if value is None else value.beyond for value in values]
        if any(unknown):
            columns[f"{name}_beyond"] = pa.array(unknown, pa.int64())
    return pa.table(columns)


def plot(shown: ByLabel, measure: str | None = None) -> Plot:
    """One measure of each value, with its 95 % interval."""
    name = measure or shown.measures[0]
    rows = [row for row in shown.rows if name in row.values]
    tasks = list(dict.fromkeys(row.task for row in rows))
    scale = display(name).scale
    with drawing(5.8, 0.9 + 0.34 * len(rows)) as (figure, axes):
        for place, row in enumerate(rows):
            number = tasks.index(row.task)
            colour, value = SERIES[number % len(SERIES)], row.values[name]
            axes.plot([scale * value.low, scale * value.high], [place, place], color=colour, linewidth=1.6)
            axes.plot(scale * value.mean, place, MARKERS[number % len(MARKERS)], color=colour, markersize=5.5)
        titles = [row.label if len(tasks) == 1 else f"{task_words(row.task)}  {row.label}" for row in rows]
        axes.set_yticks(range(len(rows)), [one_line(title) for title in titles])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"{name}, with 95 % intervals")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_title(one_line(f"{shown.system} by {shown.label}"), loc="left")
        return figure
