"""One table or figure of the characterisation: its plots and its table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.table import Table
from visir.reports.views.plot import blocks as plot_blocks
from visir.sessions.description import Statistic
from visir.sessions.reports.statistic_plots import plots_of
from visir.sessions.reports.tables import statistic_table

if TYPE_CHECKING:
    import pyarrow as pa

    from visir.reports.plot import Plot


def blocks(statistic: Statistic) -> list[Block]:
    """The plots with how to read them, and the table; a figure's table is folded."""
    if statistic.unavailable:
        return [Paragraph(statistic.unavailable, "missing")]
    shown: list[Block] = []
    for drawn, caption, _ in plots_of(statistic):
        shown += [*plot_blocks(drawn), Paragraph(caption, "soft")]
    numbers = replace(table(statistic), caption="")
    return [*shown, Fold("The numbers", [numbers]) if shown else numbers]


def table(statistic: Statistic) -> Table:
    """Rows and columns as the thesis has them, each estimate with its 95 % interval."""
    return statistic_table(statistic, intervals=statistic.name != "figure-6-2")


def arrow(statistic: Statistic) -> pa.Table:
    """One row per value: row, column, unit, value, low, high, hidden."""
    import pyarrow as pa

    names = (statistic.corner or "what", "column", "unit", "value", "low", "high", "hidden")
    cells = [
        (row, column, unit, cell.value if not isinstance(cell.value, str) else None, cell.low, cell.high, cell.hidden)
        for row, of_row in zip(statistic.rows, statistic.cells, strict=True)
        for column, unit, cell in zip(statistic.columns, statistic.units, of_row, strict=True)
    ]
    types = (pa.string(), pa.string(), pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.bool_())
    columns = list(zip(*cells, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=names)


def plot(statistic: Statistic) -> Plot:
    """The first of its plots."""
    drawn = plots_of(statistic)
    if statistic.unavailable or not drawn:
        raise VisirError(
            f"{statistic.name}: {statistic.unavailable or 'no plot; it is a table'}",
            hint=f"description.statistic({statistic.name!r}) shows it",
        )
    return drawn[0].plot
