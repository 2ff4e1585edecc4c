"""Table 6.1: what the log holds."""

from __future__ import annotations

from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell
from visir.sessions.sql import local_sql


def totals(log: SessionLog) -> Statistic:
    """The rows of Table 6.1, and more: purchases, visitors, the time the log covers."""
    # Queries are searches submitted (actions). The thesis has two sets of these numbers, in the table and in its text,
    # that do not agree (`docs/background/published-values.md`); the table's own add up, sessions = anonymous +
    # identified, as here.
    name = ("table-6-1", "What the log holds", "Table 6.1")
    known_counts = log.known_counts
    first, last = (f"strftime({local_sql(end, log.zone)}, '%Y-%m-%d %H:%M')" for end in ("min(began)", "max(ended)"))
    sessions, customers, purchases, orders, queries, start, end, hours, days, visitors = log.rows(
        "SELECT count(*), count(DISTINCT customer), count(*) FILTER (WHERE purchase), sum(orders), sum(queries), "
        f"{first}, {last}, (max(ended) - min(began)) / 3600e6, count(DISTINCT CAST({log.clock} AS DATE)), "
        f"{int(log.counts['visitors'])} FROM {log.sessions}"
    )[0]
    notes = []
    totals_by_name: list[tuple[str, float | int | str | None]] = [("Sessions", sessions)]
    if known_counts["customer"]:
        totals_by_name += [("Anonymous sessions", sessions - known_counts["customer"])]
        totals_by_name += [("Identified sessions", known_counts["customer"])]
        totals_by_name += [("Identified customers", customers)]
        notes.append("Identified: a customer is logged in or recognised at some moment of the session.")
    else:
        notes.append("The log names no customer: which sessions are of one that is known cannot be told.")
    totals_by_name += [("Purchase sessions", purchases), ("Orders", int(orders)), ("Visitors (browsers)", visitors)]
    if queries:
        totals_by_name += [("Queries", int(queries)), ("Queries per session", queries / sessions)]
    else:
        notes.append("The log records no search.")
    totals_by_name += [("Device types", ", ".join(log.devices) or "not told")]
    totals_by_name += [("From", start), ("To", end), ("Days with sessions", days)]
    span = f"{hours / 24:,.1f} days of 24 hours" if hours >= 24 else f"{hours:,.1f} hours"
    notes.append(f"Days, weekdays and hours are those of {log.zone}. From the first event to the last: {span}.")
    return Statistic(
        *name,
        corner="",
        rows=tuple(row for row, _ in totals_by_name),
        columns=("Total",),
        units=("",),
        cells=tuple((StatisticCell(value),) for _, value in totals_by_name),
        notes=tuple(notes),
        sums="",
    )
