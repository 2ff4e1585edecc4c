"""What perturbations cost by label: a table with intervals."""

from __future__ import annotations

from math import isnan

import pyarrow as pa

from visir.evaluation.stress.by_label import StressByLabel
from visir.reports.page import Block
from visir.reports.table import Cell, Column, Table, between


def blocks(shown: StressByLabel) -> list[Block]:
    """The table."""
    return [table(shown)]


def table(shown: StressByLabel) -> Table:
    """One row for each perturbation and value: queries, rsum before and after, the change with its 95 % interval."""
    percent = Column("change %", 1, signed=True)
    columns = [Column("perturbation"), Column(shown.label), Column("queries", 0), Column("cov.", 0),
               Column("rsum before", 1), Column("after", 1), percent, Column("95 %")]  # fmt: skip
    rows: list[list[Cell]] = []
    for row in shown.rows:
        change = row.change
        low, high = change.percent_interval
        cells: list[Cell] = [row.title, row.value, change.queries, 100 * row.coverage, change.before, change.after]
        cells.append(None if isnan(change.percent) else change.percent)
        cells.append(between(low, high, percent))
        rows.append(cells)
    notes = [
        "Change: in percent of the unperturbed rsum of the same queries; cov.: how many percent it could change.",
        "Intervals are for each row alone; values are not tested against each other.",
    ]
    return Table.of(columns, rows, caption=f"{shown.system} on {shown.collection}, by {shown.label}", notes=notes)


def arrow(shown: StressByLabel) -> pa.Table:
    """One row for each perturbation and value."""
    rows = [
        {
            "task": row.task,
            "perturbation": row.perturbation,
            shown.label: row.value,
            "queries": row.change.queries,
            "coverage": row.coverage,
            "rsum_before": row.change.before,
            "rsum_after": row.change.after,
            "percent": row.change.percent,
            "percent_low": row.change.percent_interval[0],
            "percent_high": row.change.percent_interval[1],
        }
        for row in shown.rows
    ]
    return pa.Table.from_pylist(rows)
