"""The comparisons of a description, decided before the log is seen: who buys more, and what buying sessions do more.

They are the questions of thesis sections 6.4.1 to 6.4.5. Devices, and channels, are compared in pairs where there are
no more than three, and otherwise each with all the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from visir.evaluation.significance import corrected
from visir.sessions.description.differences import GroupDifference, difference_of, pair_of
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.switches import STEPS
from visir.sessions.sql import text_literal, weekday_sql

PAIRS_UP_TO = 3
EVENING = (18, 20)
"""The first and the last hour of the evening (thesis section 6.4.2: most sessions from 6 pm till 8 pm)."""
WITH, WITHOUT = "sessions with a purchase", "sessions without"
BUYING = "share of sessions that end with a purchase"
_CUSTOMERS = "(SELECT unit, bool_or(purchase) AS buys, count(DISTINCT device) AS devices FROM bucket GROUP BY 1)"


def compare_all(log: SessionLog, suppress: int = 0) -> tuple[GroupDifference, ...]:
    """Every comparison that the log has data for, with p-values corrected together (Holm)."""
    differences = [
        difference
        for difference in _comparisons(log)
        if not any(count < suppress for y, n in difference.cases for count in (y, n - y, n))
    ]
    values = [float("nan") if difference.p is None else difference.p for difference in differences]
    return tuple(
        difference if difference.p is None else replace(difference, corrected=float(p))
        for difference, p in zip(differences, corrected(values), strict=True)
    )


def _comparisons(log: SessionLog) -> Iterator[GroupDifference]:
    outcomes = ("purchase", "NOT purchase")
    if not 0 < int(log.counts["purchases"]) < int(log.counts["sessions"]):
        return
    median = int(log.value(f"SELECT quantile_disc(length, 0.5) FROM {log.sessions}"))
    what = f"share of sessions longer than {median:,} action{'' if median == 1 else 's'}, the median of all sessions"
    yield difference_of("length", (WITH, WITHOUT), what, pair_of(log, *outcomes, f"length > {median}"))
    days = log.value(f"SELECT count(DISTINCT {weekday_sql(log.clock)}) FROM {log.sessions}")
    if days == 7:
        pair = pair_of(log, "weekday <= 5", "weekday > 5", "purchase")
        yield difference_of("time", ("from Monday to Friday", "at the weekend"), BUYING, pair)
    first, last = EVENING
    evening = f"hour BETWEEN {first} AND {last}"
    pair = pair_of(log, evening, f"NOT ({evening})", "purchase")
    groups = (f"from {first}:00 to {last}:59", "at other hours")
    yield difference_of("time", groups, BUYING, pair)
    yield from _conversions(log, "channels", "channel")
    yield from _conversions(log, "devices", "device")
    if log.known_counts["customer"] and log.known_counts["device"]:
        pair = pair_of(log, "buys", "NOT buys", "devices > 1", source=_CUSTOMERS, where="devices > 0", by="customers")
        groups = ("customers who bought", "customers who did not")
        yield difference_of("devices", groups, "share of customers with several device types", pair)
        known = "before IS NOT NULL AND device IS NOT NULL"
        pair = pair_of(log, *outcomes, "device <> before", source=STEPS, where=known, by="customers")
        groups = ("before a session with a purchase", "before a session without")
        yield difference_of("switches", groups, "share of customers' next sessions on another device type", pair)
    if log.known_counts["query"]:
        pair = pair_of(log, *outcomes, "queries")
        yield difference_of("queries", (WITH, WITHOUT), "queries per session (mean)", pair, "mean")


def _conversions(log: SessionLog, section: str, column: str) -> Iterator[GroupDifference]:
    names = log.names(column)
    for first, second in _groups(names):
        literal = text_literal(first)
        other = f"<> {literal}" if second is None else f"= {text_literal(second)}"
        pair = pair_of(log, f"{column} = {literal}", f"{column} {other}", "purchase", where=f"{column} IS NOT NULL")
        yield difference_of(section, (first, second or f"all other {section}"), BUYING, pair)


def _groups(names: Sequence[str]) -> list[tuple[str, str | None]]:
    """Pairs of names; of many, each with None for all the others."""
    if len(names) <= PAIRS_UP_TO:
        return list(combinations(names, 2))
    return [(name, None) for name in names]
