"""How the sessions of each outcome spread: the tables and figures of thesis sections 6.3 and 6.4, one function each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from visir.sessions.description.session_log import LengthCounts, SessionLog, moments
from visir.sessions.description.statistic import (
    Statistic,
    StatisticCell,
    StatisticEntry,
    StatisticRow,
    dominated_note,
    mean,
    percent,
    share,
    standardised,
)
from visir.sessions.sql import local_sql, table_of, weekday_sql
from visir.stats import Moments, of_moments
from visir.stats.moments import SMALL

OUTCOMES = {True: "Purchase", False: "Non-purchase"}
BUYING, OTHER = "Purchase sessions", "Non-purchase sessions"
OUTCOME_LABELS = ("sessions with a purchase", "sessions without")
RATE, STANDARD = "Conversion rate", "Standardised rate"
_ALIKE = "Intervals (95 %) hold sessions of one visitor together."


def _columns(*quantities: str) -> tuple[str, ...]:
    """These quantities of the sessions with a purchase, and of the others."""
    return tuple(f"{outcome}: {quantity}" for outcome in OUTCOMES.values() for quantity in quantities)


# Table 6.1: what the log holds.


def totals(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """The rows of Table 6.1, and more: purchases, visitors, the time the log covers."""
    # Queries are searches submitted (actions). The thesis has two sets of these numbers, in the table and in its text,
    # that do not agree (`docs/background/published-values.md`); the table's own add up, sessions = anonymous +
    # identified, as here.
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
    return entry.statistic(
        rows=tuple(row for row, _ in totals_by_name),
        columns=("Total",),
        units=("",),
        cells=tuple((StatisticCell(value),) for _, value in totals_by_name),
        notes=tuple(notes),
        sums="",
    )


# Figures 6.3 and 6.4, Tables 6.2 and 6.4: days, hours, channels, devices, and which of these convert best.


def shares_by_outcome(
    log: SessionLog, entry: StatisticEntry, *, column: str, keys: Sequence[int], label: Callable[[int], str]
) -> Statistic:
    """The share of purchase and of non-purchase sessions with each value of a column that is always known."""
    shares = log.shares("purchase", column)
    cells = tuple(tuple(share(moments(shares, outcome, key)) for outcome in OUTCOMES) for key in keys)
    return entry.statistic(
        rows=tuple(label(key) for key in keys),
        columns=(BUYING, OTHER),
        units=("%", "%"),
        cells=cells,
        of="of all sessions with a purchase, and of all without",
        notes=(*_empty(shares), _ALIKE + " They do not say how another week would differ.", *_of_few(shares)),
    )


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekdays(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Shares of all purchase sessions and of all others by the day they begin, in the log's time zone."""
    # The thesis covers 28 days, four of each. A log that has more Mondays than Sundays has more sessions on Mondays for
    # that alone, so the last column counts the days.
    keys = range(1, 8)
    statistic = shares_by_outcome(log, entry, column="weekday", keys=keys, label=lambda day: DAYS[day - 1])
    day = f"CAST({log.clock} AS DATE)"
    covered = dict(log.rows(f"SELECT {weekday_sql(day)}, count(DISTINCT {day}) FROM {log.sessions} GROUP BY 1"))
    days = [int(covered.get(day, 0)) for day in keys]
    if sum(map(bool, days)) < 2:
        return entry.without("the log covers a single day of the week")
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


def hours(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Shares of all purchase sessions and of all non-purchase sessions by the hour they begin, in the log's zone."""
    entry = replace(entry, corner=f"hour ({log.zone})")
    return shares_by_outcome(log, entry, column="hour", keys=range(24), label="{:02d}".format)


def shares_and_rates(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Shares of each outcome over the values of a column, conversion rates, and these standardised over the values."""
    # Sessions without a value are left out, and counted in a note. A session's device is the first that its events
    # name. The thesis standardises channels with the deviation of a sample (n − 1), it seems, and devices with that of
    # a population; here both are of a population, as its definition has it (section 6.2). It does not print the rates
    # of devices themselves.
    column = entry.corner
    names = log.names(column)
    where = f"{column} IS NOT NULL"
    shares = log.shares("purchase", column, where=where)
    rates = log.shares(column, "purchase", where=where)
    moments_of_names = [moments(rates, name, True) for name in names]
    standard = standardised(moments_of_names)
    cells: list[StatisticRow] = []
    for name, rate, z in zip(names, moments_of_names, standard, strict=True):
        support = int(min(rate.y, rate.n - rate.y))  # who knows the rate and the sessions knows both outcomes
        cells.append(
            (
                *(share(moments(shares, outcome, name)) for outcome in OUTCOMES),
                replace(share(rate), support=support),
                replace(z, support=support),
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
    return entry.statistic(
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
PERCENTILES_TITLE = "Half of the sessions (P50), and nine in ten (P90), are no longer than"
_SHORT, _PER_DECADE = 20, 16


def lengths(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """The share of sessions longer than each length."""
    # Length is the number of actions: pages opened, queries, items put into or taken out of the basket (section 6.2);
    # an order does not make a session longer. The CCDF at x is the share *longer* than x, so it starts below 100 %
    # where sessions without an action exist (an order alone, say), and crosses 50 % at P50; "at least x" would be the
    # curve one action further right. P50 is the smallest length that half of the sessions do not exceed.
    # Sessions of one visitor are held together at each length for itself: long sessions may be those of a few visitors
    # where short ones are everybody's. Intervals of percentiles are those of the shares, turned around (Woodruff 1952).
    groups = log.lengths
    keys = [(device, bought) for bought in OUTCOMES for device in log.devices]
    longest = max(group.lengths[-1] for group in groups.values())
    points = _points(longest)
    curves = [
        tuple(share(groups[key].longer(x)) if key in groups else StatisticCell(None, support=0) for key in keys)
        for x in points
    ]
    return entry.statistic(
        rows=tuple(f"{x:,}" for x in points),
        columns=tuple(f"{device}, {OUTCOMES[bought].lower()}" for device, bought in keys),
        units=("%",) * len(keys),
        cells=tuple(curves),
        of="of all sessions of that device and outcome",
        notes=tuple(_length_notes(log)),
        sums="",
    )


def percentiles(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """P50 and P90 of each device and outcome."""
    return entry.statistic(
        rows=log.devices,
        columns=_columns("sessions", "P50", "P90"),
        units=("", "actions", "actions") * 2,
        cells=tuple(_percentiles(log.lengths, device) for device in log.devices),
        notes=(*_length_notes(log), "Actions: pages, queries, items put into and taken out of the basket."),
    )


def _length_notes(log: SessionLog) -> list[str]:
    left = log.counts["sessions"] - log.known_counts["device"]
    notes = [f"{left:,} sessions without a known device are left out."] if left else []
    return notes + dominated_note(
        {f"{device}, {OUTCOMES[bought].lower()}": group.every for (device, bought), group in log.lengths.items()}
    )


def _points(longest: int) -> list[int]:
    """Every short length, then ever fewer, evenly on a logarithmic axis, up to the longest."""
    points = list(range(min(_SHORT, longest) + 1))
    step = 1
    while points[-1] < longest:
        point = round(_SHORT * 10 ** (step / _PER_DECADE))
        points.append(min(point, longest))
        step += 1
    return points


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
    low, high = of_moments(group.longer(value), at=percentile / 100).ends
    return StatisticCell(value, group.percentile(low), group.percentile(high), support=group.n)


# Table 6.3: how many devices customers use who buy, and who do not.


def devices_per_customer(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Shares of purchasers and of non-purchasers by the number of device types of their sessions."""
    # A purchaser is a customer with at least one purchase session; a non-purchaser one who was identified and never
    # bought (section 6.2). Anonymous sessions are nobody's. The percentages of Table 6.3 are of customers, its caption
    # ("per session") notwithstanding: 2 to 5 devices add up to "> 1 device", and that and "1 device" to 100 %.
    # Customers are independent and count once each.
    counts: Counter[tuple[bool, int]] = Counter()
    for _ in log.buckets("customers"):
        for buys, devices, customers in log.rows(
            "SELECT buys, devices, count(*) FROM (SELECT unit, bool_or(purchase) AS buys, "
            "count(DISTINCT device) AS devices FROM bucket GROUP BY 1) GROUP BY 1, 2"
        ):
            counts[buys, devices] += customers
    unknown = sum(count for (_, devices), count in counts.items() if not devices)
    most = max(devices for _, devices in counts)
    groups = {"> 1 device": range(2, most + 1), "1 device": range(1, 2)}
    groups |= {f"{count} devices": range(count, count + 1) for count in range(2, max(most, 2) + 1)}
    whole = {
        buys: sum(n for (bought, devices), n in counts.items() if bought == buys and devices) for buys in (True, False)
    }
    several, *rest = (
        tuple(
            _share(sum(counts[buys, device_count] for device_count in devices), whole[buys]) for buys in (True, False)
        )
        for devices in groups.values()
    )
    several = tuple(replace(cell, support=None) for cell in several)  # a part of no sum: it is 100 % less "1 device"
    notes = [f"{whole[True]:,} purchasers and {whole[False]:,} non-purchasers, all of them identified."]
    if unknown:
        notes.append(f"{unknown:,} customers without a known device are left out.")
    return entry.statistic(
        rows=tuple(groups),
        columns=("Purchasers", "Non-purchasers"),
        units=("%", "%"),
        cells=(several, *rest),
        of="of all purchasers, and of all non-purchasers (customers, not sessions)",
        notes=tuple(notes),
        rest=("> 1 device", "1 device"),
    )


def _share(count: int, whole: int) -> StatisticCell:
    return share(Moments(count, count, count, whole, whole, whole))


# Table 6.5: how many queries sessions with and without a purchase submit, by device.

ALL = "All devices"
_NONE = Moments(0, 0, 0, 0, 0, 0)


def queries(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Queries per session, and on which devices queries are submitted."""
    # Queries per session are over *all* sessions of that device and outcome, those without a query included: the row
    # "Avg" of Table 6.5 is all queries over all sessions (its rows weighted by the sessions of Table 6.4 give 3.10 and
    # 0.06 where it prints 3.16 and 0.06; their plain means would be 2.0 and 0.03). The percentages are of all queries
    # of the outcome: columns add up to 100 %.
    has_device = "device IS NOT NULL"
    outcome = "CASE WHEN purchase THEN 'y' ELSE 'n' END"
    means = {
        **log.means(f"{outcome} || device", "queries", where=has_device),
        **log.means(outcome, "queries", where=has_device),  # no device has an empty name
    }
    shares = log.shares("purchase", "device", where=f"{has_device} AND queries > 0", weight="queries")
    with_one = {
        (bool(purchase), device): int(count)
        for purchase, device, count in log.rows(
            f"SELECT purchase, device, count(*) FROM {log.sessions} WHERE {has_device} AND queries > 0 GROUP BY 1, 2"
        )
    }
    cells: list[StatisticRow] = []
    for device in log.devices:
        row: list[StatisticCell] = []
        for bought in OUTCOMES:
            support = with_one.get((bought, device), 0)
            row.append(mean(means.get(("y" if bought else "n") + device, _NONE), support=support))
            row.append(replace(share(moments(shares, bought, device)), support=support))
        cells.append(tuple(row))
    named = {
        f"{device}, {word.lower()}": means[key + device]
        for device in log.devices
        for key, word in (("y", OUTCOMES[True]), ("n", OUTCOMES[False]))
        if key + device in means
    }
    few = dominated_note(named)
    last: list[StatisticCell] = []
    for bought in OUTCOMES:
        support = sum(count for (outcome, _), count in with_one.items() if outcome == bought)
        last += [mean(means.get("y" if bought else "n", _NONE), support=support)]
        last += [StatisticCell(100.0 if support else None)]
    return entry.statistic(
        rows=(*log.devices, ALL),
        columns=_columns("queries per session", "share"),
        units=("", "%", "", "%"),
        cells=(*cells, tuple(last)),
        of="of all queries submitted in sessions with a purchase, and in those without",
        notes=("Sessions without a query count. Intervals (95 %) hold sessions of one visitor together.", *few),
        linked=True,
    )


# Table 6.6: how many different queries there are, by device and outcome.

TOTAL = "Total"


def texts(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Unique queries of each device and outcome: the different texts, and the texts that were submitted only once."""
    # Texts are compared as the log has them. The percentages are of the sum over the devices, as in the row "Total" of
    # Table 6.6 (180,542 of 489,368 is its 36.89 %), not "of the total number of queries" as its caption says; that
    # share is the column "of its queries" here.
    # The thesis does not say what unique means. Different texts are counted here, in each cell for itself, so a text
    # that is asked on two devices counts on both, and the total is a sum, not the number of texts in the log. The other
    # reading, texts submitted once in the whole log, falls into one cell each: it would explain that the totals add up
    # to the 1,302,195 unique queries of section 6.4.5. Both are given.
    # They are counts of this log, not estimates: they grow with it, though slower, and have no interval.
    log.db.execute("CREATE OR REPLACE TEMP TABLE texts (purchase BOOLEAN, device VARCHAR, query VARCHAR, count BIGINT)")
    for sessions, events in log.parts:
        log.db.execute(
            "INSERT INTO texts SELECT s.purchase, s.device, e.query, count(*) "
            f"FROM (SELECT visitor, session, query FROM {table_of(events)} WHERE action = 'query') e "
            f"JOIN (SELECT visitor, session, purchase, device FROM {table_of(sessions)} WHERE queries > 0) s "
            "USING (visitor, session) WHERE s.device IS NOT NULL GROUP BY ALL"
        )
    # A query without its words was submitted, but nobody can say whether it is unique.
    counted = {
        (bool(purchase), str(device)): tuple(map(int, numbers))
        for purchase, device, *numbers in log.rows(
            "SELECT purchase, device, count(DISTINCT query), count(*) FILTER (WHERE whole = 1), "
            "coalesce(sum(count) FILTER (WHERE query IS NOT NULL), 0), "
            "coalesce(sum(count) FILTER (WHERE query IS NULL), 0) "
            "FROM (SELECT purchase, device, query, sum(count) AS count, "
            "CASE WHEN query IS NOT NULL THEN sum(sum(count)) OVER (PARTITION BY query) END AS whole "
            "FROM texts GROUP BY 1, 2, 3) GROUP BY 1, 2"
        )
    }
    different = int(log.value("SELECT count(DISTINCT query) FROM texts"))
    log.db.execute("DROP TABLE texts")
    worded = sum(numbers[2] for numbers in counted.values())
    wordless = sum(numbers[3] for numbers in counted.values())
    if not worded:
        return entry.without("the log records searches without their words")
    if different == 1:
        carry = f"{worded:,} of {worded + wordless:,}" if wordless else f"all {worded:,}"
        return entry.without(f"{carry} recorded searches carry words, and always the same")
    holding: dict[tuple[bool, str], int | None] = {
        (bool(purchase), str(device)): int(count)
        for purchase, device, count in log.rows(
            f"SELECT purchase, device, count(*) FROM {log.sessions} "
            "WHERE queries > 0 AND device IS NOT NULL GROUP BY 1, 2"
        )
    }
    cells: list[StatisticRow] = []
    empty = (0, 0, 0, 0)
    for bought in OUTCOMES:
        of_outcome = [numbers for (outcome, _), numbers in counted.items() if outcome == bought]
        counted[bought, TOTAL] = tuple(map(sum, zip(empty, *of_outcome, strict=True)))
        holding[bought, TOTAL] = None  # a sum of cells is never hidden for itself
    for device in (*log.devices, TOTAL):
        row: list[StatisticCell] = []
        for bought in OUTCOMES:
            texts, once, submitted, _ = counted.get((bought, device), empty)
            numbers = (texts, percent(texts, counted[bought, TOTAL][0]), percent(texts, submitted), once)
            row += [StatisticCell(number, support=holding.get((bought, device), 0)) for number in numbers]
        cells.append(tuple(row))
    notes = ["Counts of this log, which grow with it: no intervals."]
    if wordless:
        notes.insert(0, f"{wordless:,} of {worded + wordless:,} queries are recorded without their words and left out.")
    return entry.statistic(
        rows=(*log.devices, TOTAL),
        columns=_columns("texts", "share", "of its queries", "asked once"),
        units=("", "%", "%", "") * 2,
        cells=tuple(cells),
        of='share: of the sum over devices; "of its queries": of all queries submitted there',
        notes=tuple(notes),
        linked=True,
    )


# Which prices sessions see, and what orders cost (thesis section 6.3 records both).

_SEEN = ("page", "query", "add")
"""Actions whose price is one that was seen; that of an order is what was paid."""


def prices(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """Sessions with a price seen, the median over sessions of the median price seen, and the median order."""
    # Of each session the median of its prices counts once, so that a long session does not count more than a short one.
    # Intervals of medians are those of the share below, turned around (Woodruff 1952); sessions of one visitor are held
    # together.
    events = table_of(*(events for _, events in log.parts))
    kinds = ", ".join(f"'{action}'" for action in _SEEN)
    log.db.execute(
        "CREATE OR REPLACE TEMP TABLE prices AS SELECT visitor, session, "
        f"median(price) FILTER (WHERE action IN ({kinds})) AS seen, sum(price) FILTER (WHERE action = 'order') AS paid "
        f"FROM {events} WHERE price > 0 GROUP BY visitor, session"
    )
    if not log.value("SELECT count(*) FROM prices"):
        return entry.without("the log records no price")
    joined = "(SELECT b.*, p.seen, p.paid FROM bucket b LEFT JOIN prices p USING (visitor, session))"
    with_price = log.shares("purchase", "seen IS NOT NULL", source=joined)
    cells = [
        tuple(share(moments(with_price, bought, True)) for bought in OUTCOMES),
        tuple(_median(log, "seen", joined, bought) for bought in OUTCOMES),
        (_median(log, "paid", joined, True), StatisticCell(None)),
    ]
    log.db.execute("DROP TABLE prices")
    return entry.statistic(
        rows=("Sessions with a price seen (%)", "Price seen: median over sessions", "Paid in a session: median"),
        columns=tuple(f"{outcome} sessions" for outcome in OUTCOMES.values()),
        units=("", ""),
        cells=tuple(cells),
        notes=(
            "Prices are in the log's own unit. Of a session, the median of the prices on its pages and queries and of "
            "items put into the basket; paid is the sum of its orders.",
            "Intervals (95 %) hold sessions of one visitor together.",
        ),
        sums="",
    )


def _median(log: SessionLog, column: str, joined: str, bought: bool) -> StatisticCell:
    """The median over sessions of one outcome, with the interval of the share that is no higher."""
    where = f"{column} IS NOT NULL AND purchase = {'true' if bought else 'false'}"
    sessions = f"{log.sessions} s JOIN prices USING (visitor, session)"
    count, middle = log.rows(f"SELECT count(*), quantile_disc({column}, 0.5) FROM {sessions} WHERE {where}")[0]
    if not count:
        return StatisticCell(None, support=0)
    below = moments(log.shares("0", f"{column} <= {middle!r}::DOUBLE", source=joined, where=where), 0, True)
    low, high = of_moments(below, at=0.5).ends
    ends = log.value(f"SELECT quantile_disc({column}, [{low}, {high}]) FROM {sessions} WHERE {where}")
    return StatisticCell(float(middle), float(ends[0]), float(ends[1]), support=int(count))
