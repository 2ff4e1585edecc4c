"""The differences between the values of a label: a table against one of them, and a map of all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from visir.evaluation.by_label import LabelDifference, LabelDifferences
from visir.reports.page import Block
from visir.reports.plots import FAINT, INK, SERIES, drawing
from visir.reports.table import Cell, Column, Table, between, one_line
from visir.reports.words import display, task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot

_LEGIBLE = 14
"""More values than this, and the cells of the map have no numbers."""


def blocks(shown: LabelDifferences) -> list[Block]:
    """The table."""
    return [table(shown)]


def table(shown: LabelDifferences) -> Table:
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


def arrow(shown: LabelDifferences) -> pa.Table:
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


def plot(shown: LabelDifferences, task: str | None = None) -> Plot:
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
