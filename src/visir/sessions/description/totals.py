"""Table 6.1: what the log holds."""

from __future__ import annotations

from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell
from visir.sessions.dialect import DUCKDB


def totals(log: SessionLog) -> Statistic:
    """The rows of Table 6.1, and more: purchases, visitors, the time the log covers.

    Queries are searches submitted (actions). The thesis has two sets of these numbers, in the table and in its text,
    that do not agree (`docs/background/published-values.md`); the table's own add up, sessions = anonymous +
    identified, as here.
    """
    name = ("table-6-1", "What the log holds", "Table 6.1")
    known_counts = log.known_counts
    sessions, customers, purchases, queries, first, last, days, visitors = log.rows(
        "SELECT count(*), count(DISTINCT customer), count(*) FILTER (WHERE purchase), sum(queries), "
        "strftime(make_timestamp(CAST(min(began) AS BIGINT)), '%Y-%m-%d %H:%M'), "
        "strftime(make_timestamp(CAST(max(ended) AS BIGINT)), '%Y-%m-%d %H:%M'), "
        f"CAST(ceil((max(ended) - min(began) + 1) / 86400e6) AS INTEGER), {int(log.counts['visitors'])} "
        f"FROM {log.sessions}"
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
    totals_by_name += [("Purchase sessions", purchases), ("Visitors (browsers)", visitors)]
    if queries:
        totals_by_name += [("Queries", int(queries)), ("Queries per session", queries / sessions)]
    else:
        notes.append("The log records no search.")
    totals_by_name += [("Device types", ", ".join(log.devices) or "not told")]
    totals_by_name += [("From (UTC)", first), ("To (UTC)", last), ("Days of 24 hours", days)]
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


def local_day(log: SessionLog) -> str:
    """SQL of the day on which a session began, in the declared time zone."""
    return f"CAST({DUCKDB.local('began', str(log.declared['zone']))} AS DATE)"
