"""Whether two groups of one log differ: the difference, its interval, and a test, with visitors as the units.

Differences, their intervals and p-values are those of `visir.stats.difference_of_moments`. The p-values of all
comparisons of a description are corrected together (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan
from typing import Literal

import visir.stats as stats
from visir.sessions.description.session_log import By, SessionLog
from visir.sessions.sql import text_literal, weekday_sql
from visir.stats import Moments
from visir.stats.moments import Counted, Cross

ERROR = 1 - 0.95
COUNTS_BELOW = 30
"""Of a group of fewer sessions than this counts are given instead of percentages."""

Verdict = Literal["real", "by chance?", "not shown", "too few"]


@dataclass(frozen=True)
class Pair:
    """Sums over the units, of a count y among a count n in two groups."""

    first: Moments  # of the first group
    second: Moments  # of the second group
    cross: Cross  # Σ y₁y₂, Σ y₁n₂, Σ n₁y₂, Σ n₁n₂ over the units


@dataclass(frozen=True)
class GroupDifference:
    """A comparison of two groups."""

    section: str  # of the report
    first: str  # the first group, in words
    second: str  # the second group
    what: str  # what the values are: "share of sessions that end with a purchase"
    kind: Counted  # "share" (percent, differences in points) or "mean" (of a quantity per session)
    # Of both groups, in percent or in units; None for a group without sessions.
    values: tuple[float | None, float | None]
    cases: tuple[tuple[int, int], tuple[int, int]]  # of both groups, (those that count, all)
    difference: float | None = None  # the first value minus the second; None where too few cases leave it open
    low: float | None = None  # lower end of its 95 % interval
    high: float | None = None  # upper end
    p: float | None = None  # of this comparison alone
    corrected: float | None = None  # `p` corrected for all comparisons of the description

    @property
    def verdict(self) -> Verdict:
        """What can be concluded."""
        # "real": shown, also after the correction; "by chance?": the interval leaves 0 out, but among so many
        # comparisons chance does that; "not shown": the interval holds 0; "too few": nothing is tested.
        if self.p is None:
            return "too few"
        if self.p >= ERROR:
            return "not shown"
        return "real" if self.corrected is not None and self.corrected < ERROR else "by chance?"


def pair_of(
    log: SessionLog,
    first: str,
    second: str,
    counted: str,
    *,
    source: str = "bucket",
    where: str = "true",
    by: By = "visitors",
) -> Pair:
    """The sums of a comparison."""
    columns = ", ".join(
        f"coalesce(sum(CAST({counted} AS INTEGER)) FILTER (WHERE {group}), 0) AS y{number}, "
        f"count(*) FILTER (WHERE {group}) AS n{number}"
        for number, group in ((1, first), (2, second))
    )
    moments = (
        "sum({y})",
        "sum({y} * {y})",
        "sum({y} * {n})",
        "sum({n})",
        "sum({n} * {n})",
        "count(*) FILTER (WHERE {n} > 0)",
    )
    sums = [each.format(y=f"y{k}", n=f"n{k}") for k in "12" for each in moments]
    sums += ["sum(y1 * y2)", "sum(y1 * n2)", "sum(n1 * y2)", "sum(n1 * n2)"]
    total = [0] * len(sums)
    for _ in log.buckets(by):
        answer = log.rows(
            f"SELECT {', '.join(sums)} FROM (SELECT unit, {columns} FROM {source} WHERE {where} GROUP BY unit)"
        )[0]
        total = [before + int(value or 0) for before, value in zip(total, answer, strict=True)]
    return Pair(Moments(*total[:6]), Moments(*total[6:12]), (total[12], total[13], total[14], total[15]))


def difference_of(
    section: str, groups: tuple[str, str], what: str, pair: Pair, kind: Counted = "share"
) -> GroupDifference:
    """Compare two groups; too few sessions of either kind, in either group, leave the difference open."""
    moments = (pair.first, pair.second)
    scale = 100.0 if kind == "share" else 1.0
    values = tuple(scale * group.y / group.n if group.n else None for group in moments)
    cases = tuple((int(group.y), int(group.n)) for group in moments)
    open_difference = GroupDifference(section, *groups, what, kind, (values[0], values[1]), (cases[0], cases[1]))
    tested = stats.difference_of_moments(*moments, pair.cross, kind=kind)
    if isnan(tested.p):
        return open_difference
    value, low, high = (scale * number for number in (tested.value, *tested.ends))
    return replace(open_difference, difference=value, low=low, high=high, p=tested.p)


STEPS = """(
  SELECT *, bool_or(purchase) OVER (PARTITION BY unit, journey) AS bought FROM (
    SELECT unit, device, purchase, lag(device) OVER w AS before,
      coalesce(lag(purchase) OVER w, false) AS after_purchase,
      coalesce(sum(CAST(purchase AS INTEGER)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS journey
    FROM bucket WINDOW w AS (PARTITION BY unit ORDER BY began, visitor, session)
  )
)"""


PAIRS_UP_TO = 3


EVENING = (18, 20)
"""The first and the last hour of the evening (thesis section 6.4.2: most sessions from 6 pm till 8 pm)."""


WITH, WITHOUT = "sessions with a purchase", "sessions without"


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
        for difference, p in zip(differences, stats.adjust(values), strict=True)
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
    others: list[tuple[str, str | None]] = [(name, None) for name in names]  # of many, each beside all the others
    for first, second in combinations(names, 2) if len(names) <= PAIRS_UP_TO else others:
        literal = text_literal(first)
        other = f"<> {literal}" if second is None else f"= {text_literal(second)}"
        pair = pair_of(log, f"{column} = {literal}", f"{column} {other}", "purchase", where=f"{column} IS NOT NULL")
        yield difference_of(section, (first, second or f"all other {section}"), BUYING, pair)


BUYING = "share of sessions that end with a purchase"
