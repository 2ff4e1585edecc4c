"""Figure 6.3: on which days of the week sessions with and without a purchase begin."""

from __future__ import annotations

from dataclasses import replace

from visir.sessions.description.outcome_shares import StatisticHeading, shares_by_outcome
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell
from visir.sessions.sql import weekday_sql

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekdays(log: SessionLog) -> Statistic:
    """Shares of all purchase sessions and of all non-purchase sessions by the day they begin, in the log's time
    zone."""
    # The thesis covers 28 days, four of each. A log that has more Mondays than Sundays has more sessions on Mondays for
    # that alone, so the last column counts the days.
    about = StatisticHeading("figure-6-3", "On which days sessions begin", "Figure 6.3", "day")
    statistic = shares_by_outcome(log, about, "weekday", range(1, 8), lambda day: DAYS[day - 1])
    day = f"CAST({log.clock} AS DATE)"
    covered = dict(log.rows(f"SELECT {weekday_sql(day)}, count(DISTINCT {day}) FROM {log.sessions} GROUP BY 1"))
    days = [int(covered.get(day, 0)) for day in range(1, 8)]
    if sum(map(bool, days)) < 2:
        return Statistic.without(about.name, about.title, about.source, "the log covers a single day of the week")
    notes = statistic.notes
    first, last = log.rows(f"SELECT min({log.clock}), max({log.clock}) FROM {log.sessions}")[0]
    notes = (
        f"Days are those of {log.zone}. The first, {DAYS[first.weekday()]}, has sessions from {first:%H:%M} on, and "
        f"the last, {DAYS[last.weekday()]}, until {last:%H:%M}.",
        *notes,
    )
    if len(set(days)) > 1:
        notes = (f"The log covers between {min(days)} and {max(days)} of each day, which shows in the shares.", *notes)
    unseen = (StatisticCell(None), StatisticCell(None))
    return replace(
        statistic,
        columns=(*statistic.columns, "Days in the log"),
        units=(*statistic.units, "days"),
        cells=tuple(
            (*(row if day else unseen), StatisticCell(day)) for row, day in zip(statistic.cells, days, strict=True)
        ),
        notes=notes,
    )
