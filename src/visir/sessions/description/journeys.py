"""Journeys: the sessions that lead to a purchase, over which channels, pages (thesis, Figure 6.1) and devices (6.5)."""

from __future__ import annotations

from dataclasses import replace

from visir.sessions.description.differences import STEPS
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import (
    Statistic,
    StatisticCell,
    StatisticEntry,
    StatisticRow,
    dominated_note,
    share,
)
from visir.sessions.sql import table_of

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


def sizes(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """How many sessions a journey has."""
    if not log.counts["purchases"]:
        return entry.without("the log has no purchase session")
    shares = log.shares("0", "sessions", source=_JOURNEYS)
    day, several = (log.shares("sessions", column, source=_JOURNEYS) for column in ("day", "several"))
    rows = range(1, MOST_SESSIONS + 1)
    cells = []
    for size in rows:
        own = moments(shares, 0, size)
        support = int(own.y)
        rates = [replace(share(moments(source, size, True)), support=support) for source in (day, several)]
        cells.append((StatisticCell(support, support=support), share(own), *rates))
    few = dominated_note({"all": next(iter(shares[0].values()))}, of="journeys") if shares else []
    last = f"{MOST_SESSIONS} or more"
    return entry.statistic(
        rows=(*(str(size) for size in rows[:-1]), last),
        columns=("Journeys", "Share", "Within 24 hours", "On several device types"),
        units=("", "%", "%", "%"),
        cells=tuple(cells),
        of="of all journeys; within 24 hours and on several device types: of the journeys of the row",
        notes=(_WHAT, "Intervals (95 %) hold journeys of one visitor (or customer) together.", *few),
        linked=True,
    )


def channels(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """The channels of the sessions of a journey, in order."""
    source = _paths(
        f"(SELECT *, channel AS step, row_number() OVER w AS number FROM {_MEMBERS} WHERE channel IS NOT NULL "
        f"WINDOW w AS (PARTITION BY unit, journey ORDER BY {_ORDER}))"
    )
    return _common(log, entry, source, "channels of the sessions with a known channel, in order")


def pages(log: SessionLog, entry: StatisticEntry) -> Statistic:
    """The page types of a journey before its order."""
    events = table_of(*(events for _, events in log.parts))
    if not log.value(f"SELECT count(page) FROM {events}"):
        return entry.without("the log names no page types")
    seen = (
        f"(SELECT m.unit, m.journey, m.began, e.visitor, e.session, e.page, e.place, min(CASE WHEN e.action = 'order' "
        f"THEN e.place END) OVER (PARTITION BY e.visitor, e.session) AS ordered FROM {events} e JOIN {_MEMBERS} m "
        "USING (visitor, session))"
    )
    source = _paths(
        f"(SELECT *, page AS step, row_number() OVER (PARTITION BY unit, journey ORDER BY {_ORDER}, place) AS number "
        f"FROM {seen} WHERE page IS NOT NULL AND (ordered IS NULL OR place < ordered))"
    )
    return _common(log, entry, source, "page types of all sessions of the journey before the order, in order")


def _paths(steps: str) -> str:
    """SQL of `unit` and `path` of every journey, from its steps, numbered by `number`."""
    return f"""(
  SELECT unit, journey, string_agg(step, ' › ' ORDER BY back DESC) FILTER (WHERE back <= {MOST_STEPS}) AS path FROM (
    SELECT unit, journey, step, row_number() OVER (PARTITION BY unit, journey ORDER BY number DESC) AS back FROM (
      SELECT *, lag(step) OVER (PARTITION BY unit, journey ORDER BY number) AS before FROM {steps}
    ) WHERE before IS DISTINCT FROM step
  ) GROUP BY unit, journey
)"""


def _common(log: SessionLog, entry: StatisticEntry, source: str, meaning: str) -> Statistic:
    """The most common paths, those of most journeys first, equal ones by the alphabet."""
    shares = log.shares("0", "path", source=source).get(0, {})
    if not shares:
        return entry.without("no journey has a step that is known")
    names = sorted(shares, key=lambda path: (-shares[path].y, path))
    listed = names[:MOST_PATHS]
    whole = int(next(iter(shares.values())).n)
    rest = len(names) - len(listed)
    notes = [f"Paths: {meaning}; equal neighbours are one step, and the last {MOST_STEPS} steps are given."]
    notes += (
        [f"{rest:,} other paths, of {whole - int(sum(shares[path].y for path in listed)):,} journeys."] if rest else []
    )
    return entry.statistic(
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


# Figure 6.5: from which device to which customers go, session by session, before they buy.


READINGS = (
    (
        "figure-6-5",
        "Device transitions before a purchase session",
        "purchase",
        "from the customer's session before a purchase session to that session",
    ),
    (
        "figure-6-5-journey",
        "Device transitions on the way to a purchase",
        "bought AND NOT after_purchase",
        "every two consecutive sessions up to a purchase, beginning after the purchase before",
    ),
    (
        "figure-6-5-all",
        "Device transitions of all customers",
        "true",
        "every two consecutive sessions of a customer, whether or not a purchase follows",
    ),
)
"""Which steps count: name of the statistic, title, SQL, and what is meant."""


def switches(log: SessionLog, entry: StatisticEntry, *, where: str, meaning: str) -> Statistic:
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
    names = log.devices
    both_known = "before IS NOT NULL AND device IS NOT NULL"
    transitions = log.shares("before", "device", source=STEPS, where=f"{both_known} AND {where}", by="customers")
    if not transitions:
        return entry.without("no customer has two sessions in a row that count")
    few = dominated_note(
        {f"from {left}": moments(transitions, left, names[0]) for left in names}, "customers", "transitions"
    )
    cells: list[StatisticRow] = []
    for left in names:
        row = [moments(transitions, left, to) for to in names]
        cells.append((*map(share, row), StatisticCell(int(row[0].n), support=int(row[0].n))))
    return entry.statistic(
        rows=names,
        columns=(*names, "Transitions"),
        units=(*("%" for _ in names), ""),
        cells=tuple(cells),
        of="of all transitions from the device of the row",
        notes=(f"Counted: {meaning}.", "Intervals (95 %) hold transitions of one customer together.", *few),
        sums="rows",
    )
