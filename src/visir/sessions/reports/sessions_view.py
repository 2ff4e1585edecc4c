"""A folder of sessions in a notebook: what became of the log's rows."""

from __future__ import annotations

from visir.reports.page import Block, Notice
from visir.reports.table import Table
from visir.reports.views.parts import facts
from visir.sessions.making import Sessions
from visir.sessions.reports.tables import rejected_table


def blocks(sessions: Sessions) -> list[Block]:
    """The counts, what to look at, and why rows were rejected."""
    counts = sessions.counts
    heading = facts(
        str(sessions.folder),
        (counts["sessions"], "sessions"),
        (counts["purchases"], "with a purchase"),
        (counts["visitors"], "visitors"),
    )
    look: list[Block] = [Notice(sessions.advice, title="Look at this")] if sessions.advice else []
    return [heading, *look, table(sessions)]


def table(sessions: Sessions) -> Table:
    """Rows of the log by what became of them."""
    return rejected_table(sessions.counts)
