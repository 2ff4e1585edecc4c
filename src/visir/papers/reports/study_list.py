"""The list of studies as a table."""

from __future__ import annotations

from visir.papers.surface import StudyList
from visir.reports.page import Block
from visir.reports.table import Column, Table


def table(studies: StudyList) -> Table:
    """One row for each study."""
    columns = [Column("name"), Column("paper"), Column("title"), Column("scales")]
    rows = [[entry.name, entry.paper, entry.title, ", ".join(entry.scales)] for entry in studies]
    return Table.of(columns, rows)


def blocks(studies: StudyList) -> list[Block]:
    """The table."""
    return [table(studies)]
