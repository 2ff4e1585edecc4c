"""Whether two groups of one log differ: the difference, its interval, and a test, with visitors as the units.

Two intervals that overlap say nothing of the difference: its standard error is smaller than the sum of theirs, and one
visitor may have sessions in both groups. So the difference d = p₁ − p₂ has an interval of its own, made of the
intervals [lᵢ, uᵢ] of the two values and the correlation ρ of their estimates over visitors (MOVER: Zou and Donner 2008;
Newcombe's method 10 of 1998 where ρ = 0):

    d − √((p₁ − l₁)² − 2ρ(p₁ − l₁)(u₂ − p₂) + (u₂ − p₂)²)  …  d + √((u₁ − p₁)² − 2ρ(u₁ − p₁)(p₂ − l₂) + (p₂ − l₂)²)

p is the smallest error rate at which the interval leaves 0 out, so that test and interval never disagree. The p-values
of all comparisons of a description are corrected together (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import sqrt
from typing import Literal

from visir.evaluation.statistics import corrected
from visir.sessions.description.session_log import By, SessionLog
from visir.sessions.description.statistic import (
    CONFIDENCE,
    Moments,
    StatisticCell,
    mean,
    share,
)
from visir.sessions.sql import text_literal, weekday_sql

ERROR = 1 - CONFIDENCE
COUNTS_BELOW = 30
"""Of a group of fewer sessions than this counts are given instead of percentages."""

LEAST_CASES = 5
"""Cases that a group is expected to have, at least, for a test; of a mean, visitors."""

Kind = Literal["share", "mean"]
Verdict = Literal["real", "by chance?", "not shown", "too few"]
_SMALLEST, _LARGEST, _STEPS = 1e-12, 0.999, 60


@dataclass(frozen=True)
class Pair:
    """Sums over the units, of a count y among a count n in two groups."""

    first: Moments  # of the first group
    second: Moments  # of the second group
    cross: tuple[float, float, float, float]  # Σ y₁y₂, Σ y₁n₂, Σ n₁y₂, Σ n₁n₂ over the units

    @property
    def correlation(self) -> float:
        """Correlation of the two estimates y / n over the units (linearised); 0 where no unit is in both groups."""
        p1, p2 = (group.y / group.n for group in (self.first, self.second))
        yy, yn, ny, nn = self.cross
        covariance = (yy - p2 * yn - p1 * ny + p1 * p2 * nn) / (self.first.n * self.second.n)
        spread = sqrt(self.first.variance * self.second.variance)
        return max(-1.0, min(1.0, covariance / spread)) if 0 < spread < float("inf") else 0.0


@dataclass(frozen=True)
class GroupDifference:
    """A comparison of two groups."""

    section: str  # of the report
    first: str  # the first group, in words
    second: str  # the second group
    what: str  # what the values are: "share of sessions that end with a purchase"
    kind: Kind  # "share" (percent, differences in points) or "mean" (of a quantity per session)
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
    section: str, groups: tuple[str, str], what: str, pair: Pair, kind: Kind = "share"
) -> GroupDifference:
    """Compare two groups; too few sessions of either kind, in either group, leave the difference open."""
    moments = (pair.first, pair.second)
    scale = 100.0 if kind == "share" else 1.0
    values = tuple(scale * group.y / group.n if group.n else None for group in moments)
    cases = tuple((int(group.y), int(group.n)) for group in moments)
    open_difference = GroupDifference(section, *groups, what, kind, (values[0], values[1]), (cases[0], cases[1]))
    if _is_open(pair, kind):
        return open_difference
    interval = partial(_interval, pair, share if kind == "share" else partial(mean, support=0))
    low, high = interval(CONFIDENCE)
    return replace(
        open_difference,
        difference=scale * (pair.first.y / pair.first.n - pair.second.y / pair.second.n),
        low=scale * low,
        high=scale * high,
        p=_p(interval),
    )


def _is_open(pair: Pair, kind: Kind) -> bool:
    """Whether there are too few cases: were both groups alike, one would have fewer than five (Cochran 1954)."""
    # For a mean: whether a group has fewer than five visitors, or nothing was counted at all.
    groups = (pair.first, pair.second)
    if any(group.units < 2 for group in groups):
        return True
    if kind == "mean":
        return not (pair.first.y and pair.second.y) or min(group.visitors for group in groups) < LEAST_CASES
    both = sum(group.y for group in groups) / sum(group.n for group in groups)
    return min(both, 1 - both) * min(group.effective for group in groups) < LEAST_CASES


def _interval(pair: Pair, cell: Callable[..., StatisticCell], confidence: float) -> tuple[float, float]:
    """The ends of the interval of the difference, as fractions or in units of the quantity."""
    first, second = (cell(group, confidence=confidence) for group in (pair.first, pair.second))
    scale = 100.0 if cell is share else 1.0
    (p1, l1, u1), (p2, l2, u2) = (
        (float(end.value or 0) / scale, float(end.low or 0) / scale, float(end.high or 0) / scale)
        for end in (first, second)
    )
    twice = 2 * pair.correlation
    below = (p1 - l1) ** 2 - twice * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    above = (u1 - p1) ** 2 - twice * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return p1 - p2 - sqrt(max(0.0, below)), p1 - p2 + sqrt(max(0.0, above))


def _p(interval: Callable[[float], tuple[float, float]]) -> float:
    """The smallest error rate at which the interval leaves 0 out, by bisection on its logarithm."""

    def leaves_out(error: float) -> bool:
        below, above = interval(1 - error)
        return below > 0 or above < 0

    low, high = _SMALLEST, _LARGEST
    if not leaves_out(high):
        return 1.0
    for _ in range(_STEPS):
        middle = sqrt(low * high)
        low, high = (low, middle) if leaves_out(middle) else (middle, high)
    return high


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
    others: list[tuple[str, str | None]] = [(name, None) for name in names]  # of many, each beside all the others
    for first, second in combinations(names, 2) if len(names) <= PAIRS_UP_TO else others:
        literal = text_literal(first)
        other = f"<> {literal}" if second is None else f"= {text_literal(second)}"
        pair = pair_of(log, f"{column} = {literal}", f"{column} {other}", "purchase", where=f"{column} IS NOT NULL")
        yield difference_of(section, (first, second or f"all other {section}"), BUYING, pair)


BUYING = "share of sessions that end with a purchase"
