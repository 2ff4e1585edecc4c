"""Measures by label, differences between labels, and what truncation costs: tables and plots."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.errors import VisirError
from visir.evaluation.by_label import ByLabel, LabelDifference, LabelDifferences, LabelMean
from visir.evaluation.truncation_cost import Truncation
from visir.reports.plots import FAINT, INK, MARKERS, SERIES, drawing
from visir.reports.table import Cell, Column, Table, between, one_line
from visir.reports.words import display, task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def by_label_table(shown: ByLabel) -> Table:
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


def by_label_arrow(shown: ByLabel) -> pa.Table:
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


def by_label_plot(shown: ByLabel, measure: str | None = None) -> Plot:
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


# The differences between the values of a label: a table against one of them, and a map of all pairs.


_LEGIBLE = 14
"""More values than this, and the cells of the map have no numbers."""


def differences_table(shown: LabelDifferences) -> Table:
    """Every value against the reference: both means over common images, the difference, its 95 % interval, and p."""
    says = display(shown.measure)
    number = Column(shown.measure, says.digits)
    columns = [Column("task"), Column(shown.label), Column("images", 0), number, Column(shown.reference, says.digits)]
    columns += [Column("difference", says.digits, signed=True), Column("95 % interval"), Column("p (Holm)", 3)]
    rows: list[list[Cell]] = []
    for row in shown.rows:
        if row.second == shown.reference:
            low, high = says.scale * row.low, says.scale * row.high
            means = [says.scale * row.first_mean, says.scale * row.second_mean, says.scale * row.difference]
            interval: Cell = None if row.low != row.low else between(low, high, number)
            p: Cell = None if row.p != row.p else row.p
            rows.append([task_words(row.task), row.first, row.units, *means, interval, p])
    unpaired = [row for row in shown.rows if not row.paired]
    notes = ["Both means are over the images that have queries of both." if not unpaired else
             "Values without common images are compared as independent samples."]  # fmt: skip
    if untested := [f"{row.first} ({row.beyond:,})" for row in shown.rows
                    if row.second == shown.reference and row.beyond]:  # fmt: skip
        notes += [f"Not tested, because ranks beyond the last answer are not known (queries): {', '.join(untested)}."]
    caption = f"{shown.system}: {shown.measure} by {shown.label}, against {shown.reference}"
    return Table.of(columns, rows, caption=caption, notes=notes)


def differences_arrow(shown: LabelDifferences) -> pa.Table:
    """One row for each task and ordered pair of values."""
    kinds = {"units": pa.int64(), "paired": pa.bool_(), "task": pa.string()}
    columns: dict[str, pa.Array] = {}
    for name in ("task", "first", "second"):
        columns[name] = pa.array([getattr(row, name) for row in shown.rows], pa.string())
    for name in ("units", "paired"):
        columns[name] = pa.array([getattr(row, name) for row in shown.rows], kinds[name])
    for name in ("first_mean", "second_mean", "difference", "low", "high", "p"):
        columns[name] = pa.array([getattr(row, name) for row in shown.rows], pa.float64())
    return pa.table(columns)


def differences_plot(shown: LabelDifferences, task: str | None = None) -> Plot:
    """The map: each value (row) minus each other (column), in the unit of the measure."""
    # Blue cells are gains, orange cells are losses, and the stronger the colour the larger the difference. Numbers are
    # grey where the 95 % interval includes 0.
    name = task or shown.tasks[0]
    cells = {(row.first, row.second): row for row in shown.rows if row.task == name}
    values = [value for value in shown.values if any(value in pair for pair in cells)]
    scale, count = display(shown.measure).scale, len(values)
    largest = max((abs(row.difference) for row in cells.values()), default=0.0) or 1.0
    side = 0.55 if count <= _LEGIBLE else 0.24
    with drawing(1.6 + side * count, 1.2 + side * count) as (figure, axes):
        for (first, second), row in cells.items():
            x, y = values.index(second), values.index(first)
            colour = SERIES[0] if row.difference > 0 else SERIES[1]
            strength = 0.75 * abs(row.difference) / largest
            axes.add_patch(_square(x, y, colour, strength))
            if count <= _LEGIBLE:
                text = f"{scale * row.difference:+.1f}"
                axes.text(x, y, text, ha="center", va="center", fontsize=8, color=INK if _is_clear(row) else FAINT)
        axes.set_xlim(-0.5, count - 0.5)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_xticks(range(count), [one_line(value) for value in values], rotation=0 if count <= _LEGIBLE else 90)
        axes.set_yticks(range(count), [one_line(value) for value in values])
        axes.set_aspect("equal")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.set_ylabel(f"{shown.label}")
        axes.set_xlabel("minus")
        axes.set_title(one_line(f"{task_words(name)}: {shown.measure}, row minus column"), loc="left")
        return figure


def _square(x: int, y: int, colour: str, strength: float) -> object:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, facecolor=colour, alpha=strength, linewidth=0)


def _is_clear(row: LabelDifference) -> bool:
    """Whether the interval excludes 0."""
    return row.low > 0 or row.high < 0


# What truncation costs: the counts, the measures of whole and cut texts, and of texts by length.


def truncation_tables(shown: Truncation) -> list[Table]:
    """The counts; by truncation, the difference, and by length, where they were measured."""
    parts: list[ByLabel | None] = [shown.by_truncation, shown.by_length]
    measured = [by_label_table(part) for part in parts if part is not None]
    apart = [] if shown.differences is None else [differences_table(shown.differences)]
    return [truncation_table(shown), *measured[:1], *apart, *measured[1:]]


def truncation_table(shown: Truncation) -> Table:
    """How many texts are cut, and what is lost."""
    rows: list[list[Cell]] = [["texts", f"{shown.captions:,}"]]
    if shown.limit is None:
        rows.append(["tokens that are read of a text", "all, or unknown"])
    else:
        lost = f"{100 * shown.words_lost:.1f} %" if shown.cut else "–"
        rows += [
            ["tokens that are read of a text", f"{shown.limit:,}"],
            ["tokens of a text: median", f"{shown.median:g}"],
            ["tokens of the longest text", f"{shown.longest:,}"],
            ["texts that are cut", f"{shown.cut:,} ({100 * shown.share:.1f} %)"],
            ["words of these that are not read", lost],
        ]
    return Table.of([Column("of the texts"), Column("value")], rows, caption=f"{shown.system}: how much is read")


def truncation_arrow(shown: Truncation) -> pa.Table:
    """One row: the counts."""
    names = ("system", "limit", "captions", "cut", "share", "words_lost", "median", "longest")
    return pa.table({name: [getattr(shown, name)] for name in names})


def truncation_plot(shown: Truncation, measure: str | None = None) -> Plot:
    """One measure by the length of the texts, with 95 % intervals."""
    if shown.by_length is None:
        raise VisirError(f"{shown.system}: nothing was measured by length.", hint="no text is cut, or evaluate=False")
    return by_label_plot(shown.by_length, measure)
