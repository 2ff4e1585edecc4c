"""Journeys: the sessions that lead to a purchase, how many, over which channels and pages (thesis, Figure 6.1)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import (
    SMALL,
    Moments,
    Statistic,
    StatisticCell,
    StatisticRow,
    dominated_note,
    quantile,
    share,
    standardised,
)
from visir.sessions.sql import table_of
from visir.splitmix import wilson

MOST_SESSIONS, MOST_PATHS, MOST_STEPS = 5, 10, 5
_ORDER = "began, visitor, session"
_MEMBERS = f"""(
  SELECT * FROM (
    SELECT *, bool_or(purchase) OVER (PARTITION BY unit, journey) AS bought FROM (
      SELECT *, coalesce(sum(CAST(purchase AS INTEGER)) OVER (
        PARTITION BY unit ORDER BY {_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS journey
      FROM bucket)
  ) WHERE bought
)"""
"""The sessions of journeys that end with a purchase."""

_JOURNEYS = f"""(
  SELECT unit, journey, least(count(*), {MOST_SESSIONS}) AS sessions, max(began) - min(began) < 86400000000 AS day,
    count(DISTINCT device) > 1 AS several
  FROM {_MEMBERS} GROUP BY unit, journey
)"""
_WHAT = (
    "A journey is read as all sessions after one purchase session up to and with the next: of a customer with all of "
    "the customer's browsers, otherwise of a browser. The thesis means the sessions of one wish, which no log names. "
    "What was before the log's beginning, or on browsers of no known customer, is not seen: journeys are at least this "
    "long."
)


def journeys(log: SessionLog) -> tuple[Statistic, Statistic, Statistic]:
    """How many sessions a journey has; the channels of its sessions, and its page types, in order."""
    # In a path, equal neighbours are one step, and the last `MOST_STEPS` steps before the order are given.
    return _sizes(log), _channels(log), _pages(log)


def _sizes(log: SessionLog) -> Statistic:
    about = ("journeys", "How many sessions lead to a purchase", "Figure 6.1")
    if not log.counts["purchases"]:
        return Statistic.without(*about, "the log has no purchase session")
    sizes = log.shares("0", "sessions", source=_JOURNEYS)
    day, several = (log.shares("sessions", column, source=_JOURNEYS) for column in ("day", "several"))
    rows = range(1, MOST_SESSIONS + 1)
    cells = []
    for size in rows:
        own = moments(sizes, 0, size)
        support = int(own.y)
        rates = [share(moments(source, size, True)) for source in (day, several)]
        rates = [StatisticCell(cell.value, cell.low, cell.high, support=support) for cell in rates]
        cells.append((StatisticCell(support, support=support), share(own), *rates))
    last = f"{MOST_SESSIONS} or more"
    return Statistic(
        *about,
        corner="sessions",
        rows=(*(str(size) for size in rows[:-1]), last),
        columns=("Journeys", "Share", "Within 24 hours", "On several device types"),
        units=("", "%", "%", "%"),
        cells=tuple(cells),
        of="of all journeys; within 24 hours and on several device types: of the journeys of the row",
        notes=(_WHAT, "Intervals (95 %) hold journeys of one visitor (or customer) together.", *_few(sizes)),
        linked=True,
    )


def _few(shares: dict[Any, dict[Any, Moments]]) -> list[str]:
    return dominated_note({"all": next(iter(shares[0].values()))}, of="journeys") if shares else []


def _channels(log: SessionLog) -> Statistic:
    about = ("journeys-channels", "Through which channels journeys go", "Figure 6.1")
    if not log.known_counts["channel"]:
        return Statistic.without(*about, "the log names no channel")
    source = _paths(
        f"(SELECT *, channel AS step, row_number() OVER w AS number FROM {_MEMBERS} WHERE channel IS NOT NULL "
        f"WINDOW w AS (PARTITION BY unit, journey ORDER BY {_ORDER}))"
    )
    return _common(log, about, source, "channels of the sessions with a known channel, in order")


def _pages(log: SessionLog) -> Statistic:
    about = ("journeys-pages", "Which page types come before an order", "Figure 6.1")
    events = table_of(*(events for _, events in log.parts))
    if not log.value(f"SELECT count(page) FROM {events}"):
        return Statistic.without(*about, "the log names no page types")
    seen = (
        f"(SELECT m.unit, m.journey, m.began, e.visitor, e.session, e.page, e.place, min(CASE WHEN e.action = 'order' "
        f"THEN e.place END) OVER (PARTITION BY e.visitor, e.session) AS ordered FROM {events} e JOIN {_MEMBERS} m "
        "USING (visitor, session))"
    )
    source = _paths(
        f"(SELECT *, page AS step, row_number() OVER (PARTITION BY unit, journey ORDER BY {_ORDER}, place) AS number "
        f"FROM {seen} WHERE page IS NOT NULL AND (ordered IS NULL OR place < ordered))"
    )
    return _common(log, about, source, "page types of all sessions of the journey before the order, in order")


def _paths(steps: str) -> str:
    """SQL of `unit` and `path` of every journey, from its steps, numbered by `number`."""
    return f"""(
  SELECT unit, journey, string_agg(step, ' › ' ORDER BY back DESC) FILTER (WHERE back <= {MOST_STEPS}) AS path FROM (
    SELECT unit, journey, step, row_number() OVER (PARTITION BY unit, journey ORDER BY number DESC) AS back FROM (
      SELECT *, lag(step) OVER (PARTITION BY unit, journey ORDER BY number) AS before FROM {steps}
    ) WHERE before IS DISTINCT FROM step
  ) GROUP BY unit, journey
)"""


def _common(log: SessionLog, about: tuple[str, str, str], source: str, meaning: str) -> Statistic:
    """The most common paths, those of most journeys first, equal ones by the alphabet."""
    shares = log.shares("0", "path", source=source).get(0, {})
    if not shares:
        return Statistic.without(*about, "no journey has a step that is known")
    names = sorted(shares, key=lambda path: (-shares[path].y, path))
    listed = names[:MOST_PATHS]
    whole = int(next(iter(shares.values())).n)
    rest = len(names) - len(listed)
    notes = [f"Paths: {meaning}; equal neighbours are one step, and the last {MOST_STEPS} steps are given."]
    notes += (
        [f"{rest:,} other paths, of {whole - int(sum(shares[path].y for path in listed)):,} journeys."] if rest else []
    )
    return Statistic(
        *about,
        corner="path",
        rows=tuple(listed),
        columns=("Journeys", "Share"),
        units=("", "%"),
        cells=tuple(
            (StatisticCell(int(shares[path].y), support=int(shares[path].y)), share(shares[path])) for path in listed
        ),
        of=f"of {whole:,} journeys with a known step",
        notes=(*notes, "Intervals (95 %) hold journeys of one visitor (or customer) together."),
        sums="" if rest else "columns",
        linked=True,
    )


# How the sessions of each outcome spread over days, hours, channels or devices, and which of these convert best.

OUTCOMES = {True: "Purchase", False: "Non-purchase"}
BUYING, OTHER = "Purchase sessions", "Non-purchase sessions"
OUTCOME_LABELS = ("sessions with a purchase", "sessions without")
RATE, STANDARD = "Conversion rate", "Standardised rate"
_ALIKE = "Intervals (95 %) hold sessions of one visitor together."


@dataclass(frozen=True)
class StatisticHeading:
    """Name, title, source and corner of a `Statistic`."""

    name: str
    title: str
    source: str
    corner: str


def shares_by_outcome(
    log: SessionLog, about: StatisticHeading, column: str, keys: Sequence[int], label: Callable[[int], str]
) -> Statistic:
    """The share of purchase and of non-purchase sessions with each value of a column that is always known."""
    shares = log.shares("purchase", column)
    cells = tuple(tuple(share(moments(shares, outcome, key)) for outcome in OUTCOMES) for key in keys)
    return Statistic(
        about.name,
        about.title,
        about.source,
        about.corner,
        rows=tuple(label(key) for key in keys),
        columns=(BUYING, OTHER),
        units=("%", "%"),
        cells=cells,
        of="of all sessions with a purchase, and of all without",
        notes=(*_empty(shares), _ALIKE + " They do not say how another week would differ.", *_of_few(shares)),
    )


def shares_and_rates(log: SessionLog, about: StatisticHeading, column: str) -> Statistic:
    """Shares of each outcome over the values of a column, conversion rates, and these standardised over the values."""
    # Sessions without a value are left out, and counted in a note.
    names = log.names(column)
    if not names:
        return Statistic.without(about.name, about.title, about.source, f"the log names no {column}")
    where = f"{column} IS NOT NULL"
    shares = log.shares("purchase", column, where=where)
    rates = log.shares(column, "purchase", where=where)
    moments_of_names = [moments(rates, name, True) for name in names]
    standard = standardised(moments_of_names)
    cells: list[StatisticRow] = []
    for name, rate, z in zip(names, moments_of_names, standard, strict=True):
        support = int(min(rate.y, rate.n - rate.y))  # who knows the rate and the sessions knows both outcomes
        rate_cell = share(rate)
        cells.append(
            (
                *(share(moments(shares, outcome, name)) for outcome in OUTCOMES),
                StatisticCell(rate_cell.value, rate_cell.low, rate_cell.high, support=support),
                StatisticCell(z.value, z.low, z.high, support=support),
            )
        )
    left = log.counts["sessions"] - log.known_counts[column]
    notes = [
        *_empty(shares),
        _ALIKE,
        *_of_few(shares),
        *dominated_note(dict(zip(names, moments_of_names, strict=True))),
    ]
    small = [name for name, rate in zip(names, moments_of_names, strict=True) if rate.is_small]
    if small:
        notes.append(
            f"Not standardised, because its rate is worth fewer than {SMALL:g} sessions with or without a purchase: "
            f"{', '.join(small)}. The other rates are standardised over each other."
        )
    if left:
        notes.insert(0, f"{left:,} sessions without a known {column} are left out.")
    if len(names) == 1:
        notes.append(f"There is one {column} only, so nothing to standardise over.")
    return Statistic(
        about.name,
        about.title,
        about.source,
        about.corner,
        rows=names,
        columns=(BUYING, OTHER, RATE, STANDARD),
        units=("%", "%", "%", "σ"),
        cells=tuple(cells),
        of=f"of all sessions with a purchase, and of all without; the conversion rate of the {column}'s sessions",
        notes=tuple(notes),
        linked=True,
        together=(STANDARD,),
    )


def _of_few(shares: dict[Any, dict[Any, Moments]]) -> list[str]:
    """The warning of shares whose outcome is that of a few visitors."""
    return dominated_note(
        {name.lower(): next(iter(shares[outcome].values())) for outcome, name in OUTCOMES.items() if outcome in shares}
    )


def _empty(shares: dict[Any, Any]) -> list[str]:
    return [f"The log has no {name.lower()} session." for outcome, name in OUTCOMES.items() if outcome not in shares]


# Figure 6.2: how long sessions are, by device and outcome.

PERCENTILES = (50, 90)
_SHORT, _PER_DECADE = 20, 16


@dataclass(frozen=True)
class LengthCounts:
    """Sessions of one device and outcome."""

    lengths: list[int]  # the lengths that occur, ascending
    longer_moments: list[Moments]  # of the share longer than each of them; the last is of none
    every: Moments  # of all sessions, as the share longer than nothing

    @classmethod
    def of(cls, added: Sequence[tuple[int, int, int, int]], visits: tuple[int, int, int]) -> LengthCounts:
        """The counts of lengths, and of what each of them adds to sums over visitors."""
        # A visitor with c sessions of at least this length and b longer ones adds c² − b² to Σ y² at this length. So
        # the moments at every length are sums from the longest down.
        sums, longer = (0, 0, 0), []
        for _, *more in reversed(added):
            longer.append(Moments(*sums, *visits))
            sums = (sums[0] + more[0], sums[1] + more[1], sums[2] + more[2])
        return cls([length for length, *_ in added], longer[::-1], Moments(*sums, *visits))

    @property
    def n(self) -> int:
        """How many sessions there are."""
        return int(self.every.n)

    def longer(self, length: int) -> Moments:
        """Sessions longer than `length` actions, among all."""
        position = bisect_right(self.lengths, length)
        return self.longer_moments[position - 1] if position else self.every

    def percentile(self, fraction: float) -> int:
        """The smallest length that at least this fraction of the sessions does not exceed."""
        most = self.n - fraction * self.n + 1e-9
        # Fewer and fewer sessions are longer: the first length that few enough exceed.
        position = bisect_left(self.longer_moments, -most, key=lambda moments: -moments.y)
        return self.lengths[min(position, len(self.lengths) - 1)]


def lengths(log: SessionLog) -> tuple[Statistic, Statistic]:
    """The share of sessions longer than each length (the figure), and P50 and P90 (a table)."""
    # Length is the number of actions: pages opened, queries, items put into or taken out of the basket (section 6.2);
    # an order does not make a session longer. The CCDF at x is the share *longer* than x, so it starts below 100 %
    # where sessions without an action exist (an order alone, say), and crosses 50 % at P50; "at least x" would be the
    # curve one action further right. P50 is the smallest length that half of the sessions do not exceed.
    # Sessions of one visitor are held together at each length for itself: long sessions may be those of a few visitors
    # where short ones are everybody's. Intervals of percentiles are those of the shares, turned around (Woodruff 1952).
    about = ("figure-6-2", "How long sessions are", "Figure 6.2")
    if not log.known_counts["device"]:
        why = "the log names no device"
        return Statistic.without(*about, why), Statistic.without("figure-6-2-percentiles", *about[1:], why)
    groups = _groups(log)
    keys = [(device, bought) for bought in OUTCOMES for device in log.devices]
    longest = max(group.lengths[-1] for group in groups.values())
    points = _points(longest)
    curves = [tuple(_longer(groups.get(key), x) for key in keys) for x in points]
    left = log.counts["sessions"] - log.known_counts["device"]
    notes = [f"{left:,} sessions without a known device are left out."] if left else []
    notes += dominated_note(
        {f"{device}, {OUTCOMES[bought].lower()}": groups[device, bought].every for device, bought in groups}
    )
    figure = Statistic(
        *about,
        corner="longer than (actions)",
        rows=tuple(f"{x:,}" for x in points),
        columns=tuple(f"{device}, {OUTCOMES[bought].lower()}" for device, bought in keys),
        units=("%",) * len(keys),
        cells=tuple(curves),
        of="of all sessions of that device and outcome",
        notes=tuple(notes),
        sums="",
    )
    rows: list[StatisticRow] = [_percentiles(groups, device) for device in log.devices]
    table = Statistic(
        "figure-6-2-percentiles",
        "Half of the sessions (P50), and nine in ten (P90), are no longer than",
        "Figure 6.2",
        corner="device",
        rows=log.devices,
        columns=tuple(
            f"{outcome}: {quantity}" for outcome in OUTCOMES.values() for quantity in ("sessions", "P50", "P90")
        ),
        units=("", "actions", "actions") * 2,
        cells=tuple(rows),
        notes=(*notes, "Actions: pages, queries, items put into and taken out of the basket."),
    )
    return figure, table


def _groups(log: SessionLog) -> dict[tuple[str, bool], LengthCounts]:
    """The lengths of every group, counted; memory follows the number of different lengths."""
    added: dict[tuple[str, bool], dict[int, tuple[int, ...]]] = defaultdict(dict)
    visits: dict[tuple[str, bool], tuple[int, ...]] = {}
    unit = "unit, device, purchase"
    for _ in log.buckets("visitors"):
        log.db.execute(
            "CREATE OR REPLACE TEMP TABLE counted AS SELECT *, sum(y) OVER w AS c, sum(y) OVER (PARTITION BY "
            f"{unit}) AS n FROM (SELECT {unit}, length, count(*) AS y FROM bucket WHERE device IS NOT NULL "
            f"GROUP BY {unit}, length) WINDOW w AS (PARTITION BY {unit} ORDER BY length DESC)"
        )
        for device, bought, length, *sums in log.rows(
            "SELECT device, purchase, length, sum(y), sum(c * c - (c - y) * (c - y)), sum(y * n) FROM counted "
            "GROUP BY 1, 2, 3"
        ):
            of_group = added[str(device), bool(bought)]
            of_group[int(length)] = _sum(of_group.get(int(length)), sums)
        for device, bought, *sums in log.rows(
            "SELECT device, purchase, sum(n), sum(n * n), count(*) FROM "
            f"(SELECT {unit}, any_value(n) AS n FROM counted GROUP BY {unit}) GROUP BY 1, 2"
        ):
            visits[str(device), bool(bought)] = _sum(visits.get((str(device), bool(bought))), sums)
    return {
        key: LengthCounts.of([(length, y, yy, yn) for length, (y, yy, yn) in sorted(lengths.items())], (n, nn, units))
        for key, lengths in sorted(added.items())
        for n, nn, units in [visits[key]]
    }


def _sum(before: tuple[int, ...] | None, more: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) + (before[place] if before else 0) for place, value in enumerate(more))


def _points(longest: int) -> list[int]:
    """Every short length, then ever fewer, evenly on a logarithmic axis, up to the longest."""
    points = list(range(min(_SHORT, longest) + 1))
    step = 1
    while points[-1] < longest:
        point = round(_SHORT * 10 ** (step / _PER_DECADE))
        points.append(min(point, longest))
        step += 1
    return points


def _longer(group: LengthCounts | None, x: int) -> StatisticCell:
    if group is None:
        return StatisticCell(None, support=0)
    return share(group.longer(x))


def _percentiles(groups: dict[tuple[str, bool], LengthCounts], device: str) -> StatisticRow:
    row: list[StatisticCell] = []
    for bought in OUTCOMES:
        group = groups.get((device, bought))
        if group is None:
            row += [StatisticCell(0, support=0), *(StatisticCell(None, support=0) for _ in PERCENTILES)]
            continue
        row.append(StatisticCell(group.n, support=group.n))
        row += [percentile_cell(group, percentile) for percentile in PERCENTILES]
    return tuple(row)


def percentile_cell(group: LengthCounts, percentile: float) -> StatisticCell:
    """A percentile with the interval of the share below it, turned around (Woodruff 1952)."""
    value = group.percentile(percentile / 100)
    moments = group.longer(value)
    low, high = wilson(percentile / 100, moments.effective, quantile(moments))
    return StatisticCell(value, group.percentile(low), group.percentile(high), support=group.n)
