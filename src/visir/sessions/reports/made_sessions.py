"""A folder of sessions in a notebook: what became of the log's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.reports.page import Block, Notice
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts
from visir.sessions.definition import FLAGS, REASONS
from visir.sessions.description.statistic import percent
from visir.sessions.making import Sessions
from visir.sessions.table_labels import passed_over_words


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


def rejected_table(counts: Mapping[str, Any]) -> Table:
    """How many rows were rejected and why, and what is remarkable among the accepted, as far as it occurred."""
    read = int(counts["read"])
    rows: list[list[Cell]] = [["rows read", read, 100.0 if read else None, ""]]
    rows.append(["accepted", int(counts["accepted"]), percent(int(counts["accepted"]), read), ""])
    for heading, counts_of_kind, words in (
        ("rejected", counts["rejected"], REASONS),
        ("accepted", counts["flags"], FLAGS),
    ):
        for name, count in counts_of_kind.items():
            if count:
                label = f"{heading}: {name.replace('_', ' ')}"
                rows.append([label, int(count), percent(int(count), read), words.get(name, "")])
    if counts["malformed"]:
        rows.append(["malformed lines", int(counts["malformed"]), None, "no rows; listed in malformed.parquet"])
    names = counts.get("passed_over", ())
    if names:
        rows.append(["files passed over", len(names), None, passed_over_words(names)])
    return Table.of([Column("events"), Column("count", 0), Column("%", 2), Column("what it is")], rows)
