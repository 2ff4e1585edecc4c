"""What a session is, once, as SQL text: raw rows → events → sessions.

An event is refused for the first of these `REASONS` that holds, and kept otherwise. Kept events of a visitor stand in
the order of (time, arrival), arrival being their row in the log, so that a log that came out of order is put in order
and the order of events of one moment is the log's. A session ends

1. when more than `IDLE_MINUTES` pass without a request (exactly thirty minutes do not end it), or
2. when another customer logs in: a session is one end-user's (thesis section 6.2). Anonymous events before the first
   login, between logins and after them belong to the customer of the session they are in; what is anonymous between
   two customers belongs to the earlier one.

The other reading of a login, that it makes all of that visitor's anonymous sessions the customer's, is not taken: the
thesis assigns "the session to the customer".

The text keeps to common SQL from `bounded` on (window functions, aggregates, `min_by`), so that another engine can run
it; reading a log's own columns (`rows_sql`, `events_sql`) is written for DuckDB.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.sessions.mapping import ACTIONS, COUNTED, Mapping

IDLE_MINUTES = 30

REASONS = {
    "no_visitor": "no visitor id, or an empty one",
    "no_time": "no time, none that can be read, or one before 1970 or after 9999",
    "impossible_time": "a wall clock that summer time skipped",
    "early": "before the log's declared beginning",
    "future": "at or after the log's declared end",
    "bot": "meets the declared condition for bots",
    "duplicate": "equal in every column to an event that arrived before it",
}
"""Why an event is set aside, in the order in which the reasons are tried."""

FLAGS = {
    "late": "arrived after a later event of the same visitor; put in its place",
    "unknown_action": 'an action that the mapping does not name; kept as "other"',
    "ambiguous_time": "a wall clock that summer time shows twice; read as the first",
}
"""What is remarkable about an event that is kept."""

_TEXTS = ("visitor", "customer", "device", "channel", "page", "query", "key")
_SAME = (*_TEXTS, "time", "price", "action", "unknown_action", "ambiguous_time")
_LAST = 253_402_300_800_000_000  # the first microsecond of the year 10000
_CLOCK_STEPS = (3_600_000_000, 1_800_000_000)  # by how much clocks are put back: an hour, on Lord Howe half of one


def rows_sql(mapping: Mapping, source: str, present: Collection[str]) -> str:
    """SQL that reads `source` (a table expression with columns `present`) under the names of `mapping.raw`.

    Adds `arrival`, the number of the row (of the item, where a column of lists is unnested) in the log. Raises
    `ConfigurationError` with the nearest column where a required name has none.
    """
    faults = [
        f"{name}: none of {', '.join(own)}; {nearest(own[0], present)}"
        for name, own in mapping.raw.items()
        if name in mapping.required and not set(own) & set(present)
    ]
    raise_faults(
        ConfigurationError,
        f"mapping {mapping.name!r} does not fit the log's columns",
        faults,
        hint="name the columns under [raw] of a mapping of your own",
    )
    if mapping.unnest is not None and mapping.unnest not in present:
        raise ConfigurationError(
            f"mapping {mapping.name!r}: no column {mapping.unnest!r}", hint=nearest(mapping.unnest, present)
        )
    columns = [f"{_first(own, present)} AS {_quoted(name)}" for name, own in mapping.raw.items()]
    if mapping.unnest is not None:
        columns.append(f"unnest({_quoted(mapping.unnest)}) AS item")
    return f"SELECT *, row_number() OVER () AS arrival FROM (SELECT {', '.join(columns)} FROM {source})"


def events_sql(mapping: Mapping, rows: str, *, unnested: str = "rows") -> str:
    """SQL of one event per row of `rows` (see `rows_sql`), with `reason` (null where it is kept) and its flags."""
    told = [f"nullif(CAST({mapping.events.get(name, 'NULL')} AS VARCHAR), '') AS {name}" for name in _TEXTS]
    price = mapping.events.get("price", "NULL")
    price = f"CASE WHEN isfinite(TRY_CAST({price} AS DOUBLE)) THEN TRY_CAST({price} AS DOUBLE) END"
    meaning = "".join(f" WHEN {_text(name)} THEN {_text(what)}" for name, what in mapping.actions.items())
    meaning = f"CASE said{meaning} END" if meaning else "CAST(NULL AS VARCHAR)"
    limits = [
        ("no_visitor", "visitor IS NULL"),
        ("no_time", f"wall IS NULL OR wall < 0 OR wall >= {_LAST}"),
        ("impossible_time", "time IS NULL"),
        ("early", "false" if mapping.since is None else f"time < {_microseconds(mapping.since)}"),
        ("future", "false" if mapping.until is None else f"time >= {_microseconds(mapping.until)}"),
        ("bot", "coalesce(bot, false)"),
    ]
    reason = "".join(f" WHEN {condition} THEN {_text(name)}" for name, condition in limits)
    return f"""
WITH {unnested} AS ({rows}),
told AS (
  SELECT arrival, {", ".join(told)}, {price} AS price, CAST({mapping.events["action"]} AS VARCHAR) AS said,
    {_wall(mapping)} AS wall, {mapping.bot or "false"} AS bot
  FROM {unnested}
),
meant AS (
  SELECT *, coalesce({meaning}, 'other') AS action,
    CASE WHEN {meaning} IS NULL THEN coalesce(said, '') END AS unknown_action, {_utc(mapping)}
  FROM told
)
SELECT arrival, visitor, customer, time, device, channel, page, query, price, action, key, unknown_action,
  ambiguous_time, CASE{reason} END AS reason
FROM meant"""


def firsts_sql(bucket: str) -> str:
    """SQL of the kept events of `bucket`, each once: of equal ones the first to arrive."""
    same = ", ".join(_SAME)
    return f"SELECT {same}, min(arrival) AS arrival FROM {bucket} WHERE reason IS NULL GROUP BY {same}"


def bounded_sql(firsts: str, *, idle_minutes: float = IDLE_MINUTES) -> str:
    """SQL that gives each of those events its `session` (1, 2, … per visitor), `place` (1, 2, …) and `late`."""
    idle = round(idle_minutes * 60_000_000)
    ordered = "PARTITION BY visitor ORDER BY time, arrival"
    ends = f"before IS NULL OR time - before > {idle}"
    return f"""
WITH timed AS (
  SELECT *, lag(time) OVER w AS before, row_number() OVER w AS place,
    coalesce(min(arrival) OVER (w ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) < arrival, false) AS late
  FROM {firsts} WINDOW w AS ({ordered})
),
gaps AS (
  SELECT *, sum(CASE WHEN {ends} THEN 1 ELSE 0 END) OVER ({ordered} ROWS UNBOUNDED PRECEDING) AS gap FROM timed
),
known AS (
  SELECT *, last_value(customer IGNORE NULLS) OVER (
    PARTITION BY visitor, gap ORDER BY time, arrival ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS known
  FROM gaps
)
SELECT arrival, visitor, customer, time, device, channel, page, query, price, action, key, unknown_action,
  ambiguous_time, late, place,
  CAST(sum(CASE WHEN {ends} OR customer <> known THEN 1 ELSE 0 END)
    OVER ({ordered} ROWS UNBOUNDED PRECEDING) AS BIGINT) AS session
FROM known"""


def sessions_sql(bounded: str, zone: str) -> str:
    """SQL of one row per session; hour (0–23) and weekday (1 Monday – 7 Sunday) of its start are told in `zone`."""
    counts = ", ".join(f"count(*) FILTER (WHERE action = '{one}') AS {_plural(one)}" for one in ACTIONS)
    length = ", ".join(f"'{one}'" for one in COUNTED)
    local = f"timezone({_text(zone)}, make_timestamptz(CAST(min(time) AS BIGINT)))"
    return f"""
SELECT visitor, session, min(customer) AS customer, min(time) AS began, max(time) AS ended,
  CAST(hour({local}) AS TINYINT) AS hour, CAST(isodow({local}) AS TINYINT) AS weekday,
  count(*) FILTER (WHERE action IN ({length})) AS length, count(*) AS events, {counts},
  count(DISTINCT query) AS unique_queries, count(*) FILTER (WHERE action = 'order') > 0 AS purchase,
  min_by(device, place) FILTER (WHERE device IS NOT NULL) AS device, count(DISTINCT device) AS devices,
  min_by(channel, place) FILTER (WHERE channel IS NOT NULL) AS channel
FROM {bounded} GROUP BY visitor, session"""


def _wall(mapping: Mapping) -> str:
    """Microseconds as written: since 1970 in UTC, or of the wall clock where times are local."""
    own = mapping.events["time"]
    if mapping.unit == "us":
        return f"TRY_CAST({own} AS BIGINT)"
    if mapping.unit in ("s", "ms"):  # exact to the microsecond, and null instead of an overflow
        factor = 1_000_000 if mapping.unit == "s" else 1_000
        return f"TRY_CAST(TRY_CAST({own} AS DECIMAL(28, 6)) * {factor} AS BIGINT)"
    kind = "TIMESTAMPTZ" if mapping.unit == "iso" else "TIMESTAMP"
    return f"CASE WHEN isfinite(TRY_CAST({own} AS {kind})) THEN epoch_us(TRY_CAST({own} AS {kind})) END"


def _utc(mapping: Mapping) -> str:
    """`time` in UTC, null where the wall clock never showed it; and whether it showed it twice."""
    if mapping.unit != "local":
        return "wall AS time, false AS ambiguous_time"
    zone = _text(mapping.time_zone)

    def shows(moment: str) -> str:
        return f"coalesce(epoch_us(timezone({zone}, make_timestamptz({moment}))) = wall, false)"

    sane = f"CASE WHEN wall >= 0 AND wall < {_LAST} THEN wall END"
    guess = f"epoch_us(timezone({zone}, make_timestamp({sane})))"  # one of the two, whichever the engine prefers
    before = [f"{guess} - {step}" for step in _CLOCK_STEPS]
    after = [f"{guess} + {step}" for step in _CLOCK_STEPS]
    first = " ".join(f"WHEN {shows(moment)} THEN {moment}" for moment in (*before, guess))
    return f"CASE {first} END AS time, {' OR '.join(map(shows, (*before, *after)))} AS ambiguous_time"


def _first(own: tuple[str, ...], present: Collection[str]) -> str:
    there = [_quoted(one) for one in own if one in present]
    if not there:
        return "NULL"
    return there[0] if len(there) == 1 else f"coalesce({', '.join(there)})"


def _plural(action: str) -> str:
    return {"query": "queries", "other": "others"}.get(action, f"{action}s")


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
