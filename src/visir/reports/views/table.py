"""A table on its own."""

from __future__ import annotations

from visir.reports.page import Block
from visir.reports.table import Table


def blocks(table_: Table) -> list[Block]:
    """The table itself."""
    return [table_]


def table(table_: Table) -> Table:
    """The table itself."""
    return table_
