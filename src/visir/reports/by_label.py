"""Measures by label, differences between labels, and what truncation costs: tables and plots."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from visir.errors import VisirError
from visir.evaluation.by_label import ByLabel, LabelDifferences, LabelMean
from visir.evaluation.truncation_cost import Truncation
from visir.reports.plots import FAINT, INK, SERIES, PlotMark, Square, dots, grid
from visir.reports.table import Cell, Column, Table, one_line
from visir.reports.words import display, heading, task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def by_label_table(shown: ByLabel) -> Table:
    """One row for each task and value: queries, and each measure with its 95 % interval and what chance reaches."""

    def cell(name: str, read: Callable[[LabelMean, Column, int], Cell]) -> Callable[[Any], Cell]:
        column = Column(name, display(name).digits)
        return lambda row: read(row.values[name], column, row.queries) if name in row.values else None

    columns = [Column("task", of=lambda row: task_words(row.task)), Column(shown.label, of="label")]
    columns.append(Column("queries", 0, of="queries"))
    columns += [Column("items", 0, of="items")] if any(row.items != row.queries for row in shown.rows) else []
    for name in shown.measures:
        says = display(name)
        columns.append(Column(heading(name, shown), says.digits, of=cell(name, _mean)))
        columns.append(Column("95 % interval", of=cell(name, _interval)))
        if any(name in row.values and not isnan(row.values[name].chance) for row in shown.rows):
            chance = cell(name, lambda value, *_: value.chance)
            columns.append(Column("chance", says.digits, of=chance, scale=says.scale))
    return Table.over(shown.rows, columns, caption=f"{shown.system} by {shown.label}")


def _mean(value: LabelMean, column: Column, queries: int) -> Cell:
    """The mean; the median or mean of ranks, some of which are not known, with their count."""
    if value.last is None:
        return display(column.name).scale * value.mean
    mean = value.text(value.mean, column.text(value.mean))
    return f"{mean} ({value.beyond:,} of {queries:,} beyond {value.last:,})"


def _interval(value: LabelMean, column: Column, _: int) -> Cell:
    scale = display(column.name).scale
    low, high = (value.text(end, column.text(scale * end)) for end in (value.low, value.high))
    if isnan(value.low) or isnan(value.high):
        return None
    return low if low == high and value.last is not None else f"{low} … {high}"


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
    rows, scale = [row for row in shown.rows if name in row.values], display(name).scale
    several = len({row.task for row in rows}) > 1
    marks = [
        PlotMark(
            f"{task_words(row.task)}  {row.label}" if several else row.label,
            [scale * value for value in row.values[name][:3]],
            task_words(row.task),
        )
        for row in rows
    ]
    title = f"{shown.system} by {shown.label}"
    return dots(marks, f"{name}, with 95 % intervals", title=title, size=(5.8, 0.34), apart=0)


# The differences between the values of a label: a table against one of them, and a map of all pairs.


_LEGIBLE = 14
"""More values than this, and the cells of the map have no numbers."""


def differences_table(shown: LabelDifferences) -> Table:
    """Every value against the reference: both means over common images, the difference, its 95 % interval, and p."""
    digits, scale = display(shown.measure).digits, display(shown.measure).scale
    columns = [
        Column("task", of=lambda row: task_words(row.task)),
        Column(shown.label, of="first"),
        Column("images", 0, of="units"),
        Column(shown.measure, digits, of="first_mean", scale=scale),
        Column(shown.reference, digits, of="second_mean", scale=scale),
        Column("difference", digits, signed=True, of="difference", scale=scale, ends=("low", "high")),
        Column("p (Holm)", 3, of="p"),
    ]
    against = [row for row in shown.rows if row.second == shown.reference]
    paired = all(row.paired for row in shown.rows)
    notes = ["Both means are over the images that have queries of both." if paired else
             "Values without common images are compared as independent samples."]  # fmt: skip
    if untested := [f"{row.first} ({row.beyond:,})" for row in against if row.beyond]:
        notes += [f"Not tested, because ranks beyond the last answer are not known (queries): {', '.join(untested)}."]
    caption = f"{shown.system}: {shown.measure} by {shown.label}, against {shown.reference}"
    return Table.over(against, columns, caption=caption, notes=notes)


_DIFFERENCE = {
    **dict.fromkeys(("task", "first", "second"), pa.string()),
    "units": pa.int64(),
    "paired": pa.bool_(),
    **dict.fromkeys(("first_mean", "second_mean", "difference", "low", "high", "p"), pa.float64()),
}


def differences_arrow(shown: LabelDifferences) -> pa.Table:
    """One row for each task and ordered pair of values."""
    rows = [{name: getattr(row, name) for name in _DIFFERENCE} for row in shown.rows]
    return pa.Table.from_pylist(rows, pa.schema(list(_DIFFERENCE.items())))


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
    squares = [
        Square(
            *(values.index(second), values.index(first), 0.75 * abs(row.difference) / largest),
            f"{scale * row.difference:+.1f}" if count <= _LEGIBLE else "",
            SERIES[0] if row.difference > 0 else SERIES[1],
            INK if row.low > 0 or row.high < 0 else FAINT,
        )
        for (first, second), row in cells.items()
    ]
    names = [one_line(value) for value in values]
    return grid(
        *(squares, names, names),
        size=(1.6 + side * count, 1.2 + side * count),
        letters=8,
        upright=count > _LEGIBLE,
        across="minus",
        down=shown.label,
        title=f"{task_words(name)}: {shown.measure}, row minus column",
    )


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
    return Table.pairs(rows, ("of the texts", "value"), caption=f"{shown.system}: how much is read")


def truncation_arrow(shown: Truncation) -> pa.Table:
    """One row: the counts."""
    names = ("system", "limit", "captions", "cut", "share", "words_lost", "median", "longest")
    return pa.table({name: [getattr(shown, name)] for name in names})


def truncation_plot(shown: Truncation, measure: str | None = None) -> Plot:
    """One measure by the length of the texts, with 95 % intervals."""
    if shown.by_length is None:
        raise VisirError(f"{shown.system}: nothing was measured by length.", hint="no text is cut, or evaluate=False")
    return by_label_plot(shown.by_length, measure)
