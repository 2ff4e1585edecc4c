"""Everything of thesis sections 6.3 and 6.4 from one folder of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from visir.display import Plotted, brief, counted, listed
from visir.errors import VisirError
from visir.evaluation.significance import corrected
from visir.sessions.description.differences import GroupDifference, difference_of, pair_of
from visir.sessions.description.journeys import (
    OUTCOMES,
    StatisticHeading,
    journeys,
    lengths,
    shares_and_rates,
    shares_by_outcome,
)
from visir.sessions.description.session_log import SessionLog, moments, open_log
from visir.sessions.description.statistic import (
    Moments,
    Statistic,
    StatisticCell,
    StatisticRow,
    dominated_note,
    mean,
    percent,
    quantile,
    share,
    suppressed,
)
from visir.sessions.sql import local_sql, table_of, text_literal, weekday_sql
from visir.splitmix import wilson

# Figure 6.5: from which device to which customers go, session by session, before they buy.

Reading = Literal["last", "journey", "all"]
READINGS: dict[Reading, tuple[str, str, str]] = {
    "last": (
        "figure-6-5",
        "Device transitions before a purchase session",
        "from the customer's session before a purchase session to that session",
    ),
    "journey": (
        "figure-6-5-journey",
        "Device transitions on the way to a purchase",
        "every two consecutive sessions up to a purchase, beginning after the purchase before",
    ),
    "all": (
        "figure-6-5-all",
        "Device transitions of all customers",
        "every two consecutive sessions of a customer, whether or not a purchase follows",
    ),
}
"""Which steps count: name of the statistic, title, and what is meant."""
_WHERE: dict[Reading, str] = {"last": "purchase", "journey": "bought AND NOT after_purchase", "all": "true"}
STEPS = """(
  SELECT *, bool_or(purchase) OVER (PARTITION BY unit, journey) AS bought FROM (
    SELECT unit, device, purchase, lag(device) OVER w AS before,
      coalesce(lag(purchase) OVER w, false) AS after_purchase,
      coalesce(sum(CAST(purchase AS INTEGER)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS journey
    FROM bucket WINDOW w AS (PARTITION BY unit ORDER BY began, visitor, session)
  )
)"""


def switches(log: SessionLog, reading: Reading = "last") -> Statistic:
    """The probability of each next device, given the device of the session before; self-transitions included."""
    # Rows are the devices left, columns those gone to, and rows add up to 100 %: from TV, the thesis has 43.75 % to PC
    # and 6.25 % each to tablet and game console, which are 7 and 1 of 16 transitions *from TV*.
    # Sessions are a customer's in the order in which they began. "Before a purchase session" is read as the one step
    # from the session before to the purchase session: the thesis explains that TV is hardly ever gone to by how
    # difficult it is *to purchase* on it, and has only 16 transitions from TV (or a multiple).
    # The thesis's *journey* is of one wish (a fridge, a present; Figure 6.1), and journeys of a customer interleave. A
    # log does not contain wishes, so there are two readings: all steps that come after one purchase and lead to the
    # next ("journey"), or all consecutive sessions of a customer ("all"). Only the latter is not biased towards the
    # devices that people buy on.
    name, title, meaning = READINGS[reading]
    names = log.devices
    for column, reason in (("customer", "customer, and a visitor is one browser"), ("device", "device")):
        if not log.known_counts[column]:
            return Statistic.without(name, title, "Figure 6.5", f"the log names no {reason}")
    both_known = "before IS NOT NULL AND device IS NOT NULL"
    transitions = log.shares(
        "before", "device", source=STEPS, where=f"{both_known} AND {_WHERE[reading]}", by="customers"
    )
    if not transitions:
        return Statistic.without(name, title, "Figure 6.5", "no customer has two sessions in a row that count")
    few = dominated_note(
        {f"from {left}": moments(transitions, left, names[0]) for left in names}, "customers", "transitions"
    )
    cells: list[StatisticRow] = []
    for left in names:
        row = [moments(transitions, left, to) for to in names]
        cells.append((*map(share, row), StatisticCell(int(row[0].n), support=int(row[0].n))))
    return Statistic(
        name,
        title,
        "Figure 6.5",
        corner="from",
        rows=names,
        columns=(*names, "Transitions"),
        units=(*("%" for _ in names), ""),
        cells=tuple(cells),
        of="of all transitions from the device of the row",
        notes=(f"Counted: {meaning}.", "Intervals (95 %) hold transitions of one customer together.", *few),
        sums="rows",
    )


# Table 6.6: how many different queries there are, by device and outcome.

TOTAL = "Total"


def unique_queries(log: SessionLog) -> Statistic:
    """Unique queries of each device and outcome: the different texts, and the texts that were submitted only once."""
    # Texts are compared as the log has them. The percentages are of the sum over the devices, as in the row "Total" of
    # Table 6.6 (180,542 of 489,368 is its 36.89 %), not "of the total number of queries" as its caption says; that
    # share is the column "of its queries" here.
    # The thesis does not say what unique means. Different texts are counted here, in each cell for itself, so a text
    # that is asked on two devices counts on both, and the total is a sum, not the number of texts in the log. The other
    # reading, texts submitted once in the whole log, falls into one cell each: it would explain that the totals add up
    # to the 1,302,195 unique queries of section 6.4.5. Both are given.
    # They are counts of this log, not estimates: they grow with it, though slower, and have no interval.
    name = ("table-6-6", "How many different queries there are", "Table 6.6")
    for column, reason in (("device", "names no device"), ("query", "records no search")):
        if not log.known_counts[column]:
            return Statistic.without(*name, f"the log {reason}")
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
        return Statistic.without(*name, "the log records searches without their words")
    if different == 1:
        carry = f"{worded:,} of {worded + wordless:,}" if wordless else f"all {worded:,}"
        return Statistic.without(*name, f"{carry} recorded searches carry words, and always the same")
    holding = {
        (bool(purchase), str(device)): int(count)
        for purchase, device, count in log.rows(
            f"SELECT purchase, device, count(*) FROM {log.sessions} "
            "WHERE queries > 0 AND device IS NOT NULL GROUP BY 1, 2"
        )
    }
    cells: list[StatisticRow] = []
    empty = (0, 0, 0, 0)
    whole = {
        bought: sum(numbers[0] for (outcome, _), numbers in counted.items() if outcome == bought) for bought in OUTCOMES
    }
    for device in log.devices:
        row: list[StatisticCell] = []
        for bought in OUTCOMES:
            texts, once, submitted, _ = counted.get((bought, device), empty)
            support = holding.get((bought, device), 0)
            numbers = (texts, percent(texts, whole[bought]), percent(texts, submitted), once)
            row += [StatisticCell(number, support=support) for number in numbers]
        cells.append(tuple(row))
    last: list[StatisticCell] = []
    for bought in OUTCOMES:
        once, submitted = (
            sum(numbers[column] for (outcome, _), numbers in counted.items() if outcome == bought) for column in (1, 2)
        )
        last += [StatisticCell(whole[bought]), StatisticCell(percent(whole[bought], whole[bought]))]
        last += [StatisticCell(percent(whole[bought], submitted)), StatisticCell(once)]
    notes = ["Counts of this log, which grow with it: no intervals."]
    if wordless:
        notes.insert(0, f"{wordless:,} of {worded + wordless:,} queries are recorded without their words and left out.")
    return Statistic(
        *name,
        corner="device",
        rows=(*log.devices, TOTAL),
        columns=tuple(
            f"{outcome}: {quantity}"
            for outcome in OUTCOMES.values()
            for quantity in ("texts", "share", "of its queries", "asked once")
        ),
        units=("", "%", "%", "") * 2,
        cells=(*cells, tuple(last)),
        of='share: of the sum over devices; "of its queries": of all queries submitted there',
        notes=tuple(notes),
        linked=True,
    )


# The comparisons of a description, decided before the log is seen: who buys more, and what buying sessions do more.

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


# Table 6.5: how many queries sessions with and without a purchase submit, by device.

ALL = "All devices"
_NONE = Moments(0, 0, 0, 0, 0, 0)


def queries(log: SessionLog) -> Statistic:
    """Queries per session, and on which devices queries are submitted."""
    # Queries per session are over *all* sessions of that device and outcome, those without a query included: the row
    # "Avg" of Table 6.5 is all queries over all sessions (its rows weighted by the sessions of Table 6.4 give 3.10 and
    # 0.06 where it prints 3.16 and 0.06; their plain means would be 2.0 and 0.03). The percentages are of all queries
    # of the outcome: columns add up to 100 %.
    name = ("table-6-5", "How often sessions search", "Table 6.5")
    for column, reason in (("device", "names no device"), ("query", "records no search")):
        if not log.known_counts[column]:
            return Statistic.without(*name, f"the log {reason}")
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
            share_of_device = share(moments(shares, bought, device))
            row.append(mean(means.get(("y" if bought else "n") + device, _NONE), support=support))
            row.append(StatisticCell(share_of_device.value, share_of_device.low, share_of_device.high, support=support))
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
    return Statistic(
        *name,
        corner="device",
        rows=(*log.devices, ALL),
        columns=tuple(
            f"{outcome}: {quantity}" for outcome in OUTCOMES.values() for quantity in ("queries per session", "share")
        ),
        units=("", "%", "", "%"),
        cells=(*cells, tuple(last)),
        of="of all queries submitted in sessions with a purchase, and in those without",
        notes=("Sessions without a query count. Intervals (95 %) hold sessions of one visitor together.", *few),
        linked=True,
    )


# Which prices sessions see, and what orders cost (thesis section 6.3 records both).

_SEEN = ("page", "query", "add")
"""Actions whose price is one that was seen; that of an order is what was paid."""


def prices(log: SessionLog) -> Statistic:
    """Sessions with a price seen, the median over sessions of the median price seen, and the median order."""
    # Of each session the median of its prices counts once, so that a long session does not count more than a short one.
    # Intervals of medians are those of the share below, turned around (Woodruff 1952); sessions of one visitor are held
    # together.
    about = ("prices", "Which prices sessions see and pay", "Section 6.3")
    events = table_of(*(events for _, events in log.parts))
    kinds = ", ".join(f"'{action}'" for action in _SEEN)
    log.db.execute(
        "CREATE OR REPLACE TEMP TABLE prices AS SELECT visitor, session, "
        f"median(price) FILTER (WHERE action IN ({kinds})) AS seen, sum(price) FILTER (WHERE action = 'order') AS paid "
        f"FROM {events} WHERE price > 0 GROUP BY visitor, session"
    )
    if not log.value("SELECT count(*) FROM prices"):
        return Statistic.without(*about, "the log records no price")
    joined = "(SELECT b.*, p.seen, p.paid FROM bucket b LEFT JOIN prices p USING (visitor, session))"
    with_price = log.shares("purchase", "seen IS NOT NULL", source=joined)
    cells = [
        tuple(share(moments(with_price, bought, True)) for bought in OUTCOMES),
        tuple(_median(log, "seen", joined, bought) for bought in OUTCOMES),
        (_median(log, "paid", joined, True), StatisticCell(None)),
    ]
    log.db.execute("DROP TABLE prices")
    return Statistic(
        *about,
        corner="",
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
    low, high = wilson(0.5, below.effective, quantile(below))
    ends = log.value(f"SELECT quantile_disc({column}, [{low}, {high}]) FROM {sessions} WHERE {where}")
    return StatisticCell(float(middle), float(ends[0]), float(ends[1]), support=int(count))


# Table 6.3: how many devices customers use who buy, and who do not.


def devices_per_customer(log: SessionLog) -> Statistic:
    """Shares of purchasers and of non-purchasers by the number of device types of their sessions."""
    # A purchaser is a customer with at least one purchase session; a non-purchaser one who was identified and never
    # bought (section 6.2). Anonymous sessions are nobody's. The percentages of Table 6.3 are of customers, its caption
    # ("per session") notwithstanding: 2 to 5 devices add up to "> 1 device", and that and "1 device" to 100 %.
    # Customers are independent and count once each.
    name = ("table-6-3", "How many device types customers use", "Table 6.3")
    if not log.known_counts["customer"]:
        return Statistic.without(*name, "the log names no customer")
    if not log.known_counts["device"]:
        return Statistic.without(*name, "the log names no device")
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
    return Statistic(
        *name,
        corner="device types",
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


# Table 6.1: what the log holds.


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


# Figure 6.3: on which days of the week sessions with and without a purchase begin.

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


# Table 6.2: through which channels sessions with and without a purchase came.


def channels(log: SessionLog) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over
    channels."""
    # The thesis standardises channels with the deviation of a sample (n − 1), it seems, and devices with that of a
    # population; here both are of a population, as its definition has it (section 6.2).
    return shares_and_rates(
        log, StatisticHeading("table-6-2", "Channels, and how well they convert", "Table 6.2", "channel"), "channel"
    )


# Table 6.4: on which devices sessions with and without a purchase happen, and how well devices convert.


def devices(log: SessionLog) -> Statistic:
    """Shares of all purchase and of all non-purchase sessions, conversion rates, and these standardised over
    devices."""
    # A session's device is the first that its events name. The thesis does not print the rates themselves.
    return shares_and_rates(
        log, StatisticHeading("table-6-4", "Devices, and how well they convert", "Table 6.4", "device"), "device"
    )


# Figure 6.4: at which hours of the day sessions with and without a purchase begin.


def hours(log: SessionLog) -> Statistic:
    """Shares of all purchase sessions and of all non-purchase sessions by the hour they begin, in the log's zone."""
    about = StatisticHeading("figure-6-4", "At which hours sessions begin", "Figure 6.4", f"hour ({log.zone})")
    return shares_by_outcome(log, about, "hour", range(24), lambda hour: f"{hour:02d}")


@dataclass(frozen=True, repr=False)
class Characterisation(Plotted, view="visir.sessions.reports.sessions"):
    """What distinguishes the sessions that buy.

    Args:
        name: Of the folder.
        counts: The counts of `counts.json`.
        declared: The declarations of `counts.json`.
        engine: The engine of `counts.json`.
        statistics: In the order of the thesis, also those that cannot be computed from this log.
        suppress: Cells of fewer sessions than this are hidden; 0 for none.
        differences: What was compared, with tests; one family (`comparisons`).
    """

    name: str
    counts: dict[str, Any]
    declared: dict[str, Any]
    engine: str
    statistics: tuple[Statistic, ...]
    suppress: int
    differences: tuple[GroupDifference, ...] = ()

    def __repr__(self) -> str:
        counts = self.counts
        share = f"{counts['purchases'] / counts['sessions']:.1%}".replace("%", " %")
        there = [statistic.name for statistic in self.statistics if not statistic.unavailable]
        return brief(
            self,
            f"{self.name}: {counted(counts['sessions'], 'sessions')}, {share} with a purchase",
            f"{len(there)} of {counted(len(self.statistics), 'statistics')}: {listed(there, len(there), limit=4)}",
        )

    def statistic(self, name: str) -> Statistic:
        """A statistic by its name.

        Raises:
            KeyError: There is none of this name; the names are listed.
        """
        for statistic in self.statistics:
            if statistic.name == name:
                return statistic
        raise KeyError(f"{name}: one of {', '.join(statistic.name for statistic in self.statistics)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "counts": self.counts,
            "declared": self.declared,
            "engine": self.engine,
            "suppress": self.suppress,
            "differences": [{**asdict(each), "verdict": each.verdict} for each in self.differences],
            "statistics": [statistic.to_dict() for statistic in self.statistics],
        }


def describe(
    folder: str | Path,
    *,
    zone: str | None = None,
    suppress: int = 0,
    threads: int | None = None,
    memory: str | None = None,
) -> Characterisation:
    """Tables 6.1 to 6.6 and Figures 6.2 to 6.5 of a folder that `sessionise` wrote.

    Shares and rates have 95 % intervals (`intervals`). What cannot be computed from the log says why in
    `Statistic.unavailable`. The same folder gives the same numbers, whatever the threads.

    Args:
        folder: A folder of sessions.
        zone: The time zone of all hours, weekdays and days; by default the one declared when the sessions were made.
        suppress: Hide cells of fewer sessions than this (see `suppressed`); 0 for none.
        threads: Default: one per core.
        memory: What the engine may hold ("2GB").

    Raises:
        VisirError: The folder is no folder of sessions, or holds none.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from visir.sessions import preset, sessionise
        >>> log = pa.table({"visitor": ["ann", "bob"], "time": [0, 0], "action": ["order", "page"]})
        >>> pq.write_table(log, "log.parquet")
        >>> _ = sessionise("log.parquet", preset("events"), "out")
        >>> describe("out").statistic("table-6-1").value("Purchase sessions", "Total").value
        1
    """
    if suppress < 0:
        raise VisirError(
            f"cells of fewer than {suppress} sessions: there are none.", hint="0 hides nothing", code="there-are-none"
        )
    with open_log(folder, threads=threads, memory=memory, zone=zone) as log:
        if not log.counts["sessions"]:
            raise VisirError(
                f"{folder} holds no sessions.",
                hint="its counts.json says what was rejected, and why",
                code="holds-no-sessions",
            )
        statistics = statistics_of(log)
        differences = compare_all(log, suppress)
        counts, declared, engine = log.counts, log.declared, log.engine
    name = Path(folder).resolve().name
    shown = tuple(suppressed(statistic, suppress) for statistic in statistics)
    return Characterisation(name, counts, declared, engine, shown, suppress, differences)


def statistics_of(log: SessionLog) -> tuple[Statistic, ...]:
    """Every statistic of an opened log, in the order of the thesis."""
    return (
        totals(log),
        *lengths(log),
        weekdays(log),
        hours(log),
        channels(log),
        devices_per_customer(log),
        devices(log),
        *(switches(log, reading) for reading in READINGS),
        queries(log),
        unique_queries(log),
        *journeys(log),
        prices(log),
    )
