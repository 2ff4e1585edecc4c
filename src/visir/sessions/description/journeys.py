"""Journeys: the sessions that lead to a purchase, how many, over which channels and pages (thesis, Figure 6.1)."""

from __future__ import annotations

from typing import Any

from visir.sessions.description.intervals import Moments, dominated_note, share
from visir.sessions.description.session_log import SessionLog, moments
from visir.sessions.description.statistic import Statistic, StatisticCell
from visir.sessions.folder import table_of

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
