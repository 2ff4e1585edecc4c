"""The values of a figure as a grid: nothing is printed beside them, so what is compared stands in one row or column."""

from __future__ import annotations

from visir.reports.table import Cell, Column, Table
from visir.studies.papers.verdict import Verdict

WIDE = 8
"""Curves up to this many stand side by side where they have more points than there are curves; more, one below
another."""


def grid_table(verdict: Verdict, notes: list[str]) -> Table | None:
    """Every measured value, a row or a column for each system; None where something is printed, or of several seeds.

    In the files beside the page each value has a row of its own, whatever table the page shows.
    """
    study = verdict.study
    shown = [one for one in verdict.values if one.ours is not None]
    if study.published is not None or study.figure is not None or not shown or any(one.seeds > 1 for one in shown):
        return None
    values = {(one.system, one.collection, one.label): one.ours for one in shown}
    systems = list(dict.fromkeys((one.system, one.collection) for one in shown))
    labels = list(dict.fromkeys(one.label for one in shown))
    rows: list[list[Cell]]
    if len(labels) > len(systems) <= WIDE:
        columns = [Column("value"), *(Column(", ".join(filter(None, one)), 2) for one in systems)]
        rows = [[label, *(values.get((*one, label)) for one in systems)] for label in labels]
    else:
        columns = [Column("system"), Column("collection"), *(Column(one, 2) for one in labels)]
        rows = [[one[0], one[1] or None, *(values.get((*one, label)) for label in labels)] for one in systems]
        if not any(collection for _, collection in systems):
            columns.pop(1)
            rows = [[row[0], *row[2:]] for row in rows]
    return Table.of(columns, rows, caption=f"{study.paper}: {study.title} ({verdict.scale})", notes=notes)
