"""The list of measures: name, aliases, formula, and the other reading."""

from __future__ import annotations

from visir.evaluation.measures.measure import MeasureList
from visir.reports.page import Block
from visir.reports.table import Column, Table


def table(listed: MeasureList) -> Table:
    """One row for each measure."""
    rows = [
        [measure.pattern, ", ".join(measure.aliases), measure.says, measure.formula, measure.differs]
        for measure in listed.measures.values()
    ]
    columns = ["name", "also called", "question", "formula", "the other reading"]
    return Table.of([Column(name) for name in columns], rows, caption="Measures")


def blocks(listed: MeasureList) -> list[Block]:
    """The table."""
    return [table(listed)]
