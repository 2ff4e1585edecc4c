"""The definition of a session, once, as SQL text: raw rows → events → sessions.

An event is rejected for the first of the `REASONS` that holds; otherwise it is accepted. Accepted events of a visitor
are in the order of time, then of arrival (their row in the log). So a log that came out of order is put in order, and
events of one moment are in the order of the log. A session ends

1. when more than `IDLE_MINUTES` pass without a request (exactly thirty minutes do not end it), or
2. when another customer logs in: a session is one end-user's (thesis section 6.2). Anonymous events before the first
   login, between logins and after them belong to the customer of the session they are in; what is anonymous between
   two customers belongs to the earlier one.

An order that is shown again (a receipt on two hits of one page, or opened again) is one order: of the order events of a
visitor that name the same `order_id`, the first counts, and the others become "other". Orders without a number all
count.

The other reading of a login, that it makes all of that visitor's anonymous sessions the customer's, is not taken: the
thesis assigns "the session to the customer".

The text is DuckDB's SQL, which runs it everywhere: on one machine, and on the workers of Spark.

Most events are no duplicate, not late, and no login of another customer. These rare events are searched among the few
moments and visitors where they can be, as sets of arrivals, so that all the others need two sorts of a few numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from visir.collections.cells import LONGEST_WORD, NOTHING
from visir.display import Displayed
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.files import parse_toml
from visir.sessions.sql import local_sql, text_literal, weekday_sql

# A mapping: how a log's own columns become events. Declared in TOML, so that nothing about a log is in code.

ACTIONS = ("page", "query", "add", "remove", "order", "other")
"""What an event can be: a page opened, a query, an item put in or taken out of the basket, an order, anything else."""

COUNTED = ("page", "query", "add", "remove")
"""Actions that make a session longer (thesis section 6.2). An order does not: it is what is to be predicted."""

COLUMNS = (
    "visitor",
    "customer",
    "time",
    "device",
    "location",
    "channel",
    "page",
    "query",
    "price",
    "action",
    "order_id",
    "key",
)

DELIMITERS = (",", ";", "|", "\t")
"""What may stand between the columns of a CSV file."""

UNITS = ("s", "ms", "us", "iso", "local")
"""Times are numbers since 1970 (seconds, milliseconds, microseconds), ISO 8601 with an offset ("iso"; without one it
is UTC), or a wall clock without an offset ("local", in `time_zone`)."""


@dataclass(frozen=True, slots=True, repr=False)
class LogMapping(Displayed):
    """How a log's columns become events.

    Args:
        name: Of the preset or the file.
        format: "parquet", "csv" or "json" (one object a line).
        raw: What is read: a name → the log's columns, of which at least one must exist where the name is `required`. Of
            several that exist, the first that is not null counts, row by row (a column that was renamed).
        events: A column of an event → an SQL expression over the names of `raw`. What is not mentioned is null.
        about: The log in a sentence, for reports.
        delimiter: What stands between the columns of a CSV file: ",", ";", "|" or a tab.
        required: Names of `raw` that must have a column.
        unit: How times are written, one of `UNITS`.
        zone: The time zone of hours and weekdays.
        time_zone: The time zone in which times of the unit "local" are written.
        actions: The log's name of an action → one of `ACTIONS`. A name that is missing becomes "other" and is counted.
        unnest: A column of lists (the hits of a visit) that becomes one row per item, called `item`.
        bot: An SQL condition over the names of `raw`; rows that meet it are rejected.
        locations: Only events of these locations are accepted (thesis section 6.3); empty for all.
        devices: Only events of these devices are accepted; empty for all.
        since: The first time that can be true.
        until: The first time that cannot; a log has no other way to know the future.
        decimal: What stands before the cents of prices that are text: "point" or "comma". Without it each price is read
            by itself, and those with two readings ("1.299") are counted.

    Raises:
        ConfigurationError: Fields do not fit; all faults are listed.
    """

    name: str
    format: str
    raw: dict[str, tuple[str, ...]]
    events: dict[str, str]
    about: str = ""
    delimiter: str = ","
    required: tuple[str, ...] = ("visitor", "time")
    unit: str = "us"
    zone: str = "UTC"
    time_zone: str = "UTC"
    actions: dict[str, str] = field(default_factory=dict)
    unnest: str | None = None
    bot: str | None = None
    locations: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    decimal: str = ""

    def __post_init__(self) -> None:
        faults = [*_unknown("format", [self.format], ("parquet", "csv", "json")), *_unknown("unit", [self.unit], UNITS)]
        faults += _unknown("delimiter", [self.delimiter], DELIMITERS)
        faults += _unknown("decimal", [self.decimal], ("", "point", "comma"))
        faults += _unknown("column of an event", self.events, COLUMNS)
        faults += _unknown("meaning of an action", self.actions.values(), ACTIONS)
        faults += _unknown("required name", self.required, self.raw)
        faults += [f"events.{name} is missing" for name in ("visitor", "time", "action") if name not in self.events]
        for names, column in (("locations", "location"), ("devices", "device")):
            if getattr(self, names) and column not in self.events:
                faults.append(f"{names} are declared, but events.{column} is missing")
        faults += [fault for zone in dict.fromkeys((self.zone, self.time_zone)) if (fault := zone_fault(zone))]
        for name in ("since", "until"):
            bound = getattr(self, name)
            if bound is not None and bound.tzinfo is None:
                faults.append(f"{name} has no offset: is {bound.isoformat()} UTC or local?")
        raise_faults(ConfigurationError, f"mapping {self.name!r}", faults, hint="see docs/reference/session-logs.md")


def load_mapping(path: str | Path) -> LogMapping:
    r"""Read a mapping from a TOML file.

    Raises:
        ConfigurationError: There is no such file, or it has faults; all are listed at once.

    Example:
        >>> from pathlib import Path
        >>> toml = 'format = "csv"\nunit = "iso"\n[raw]\nvisitor = "cookie"\ntime = "at"\n'
        >>> toml += '[events]\nvisitor = "visitor"\ntime = "time"\naction = "\'page\'"\n[actions]\npage = "page"\n'
        >>> _ = Path("shop.toml").write_text(toml)
        >>> load_mapping("shop.toml").raw
        {'visitor': ('cookie',), 'time': ('at',)}
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(
            f"{path}: no such file.", hint="name a TOML file or a preset (visir.sessions.presets)", code="no-such-file"
        )
    return _parse(path.read_text("utf-8"), path.stem, str(path))


@cache
def preset(name: str) -> LogMapping:
    """A mapping that comes with visir.

    Args:
        name: One of `presets`.

    Raises:
        ConfigurationError: The name is unknown; the nearest one is suggested.

    Example:
        >>> preset("events").format
        'parquet'
    """
    if name not in presets():
        raise ConfigurationError(f"unknown preset {name!r}", hint=nearest(name, presets()))
    text = (resources.files("visir.sessions") / "presets" / f"{name}.toml").read_text("utf-8")
    return _parse(text, name, f"preset {name}")


@cache
def presets() -> tuple[str, ...]:
    """The names of the mappings that come with visir, sorted.

    Example:
        >>> "events" in presets()
        True
    """
    folder = resources.files("visir.sessions") / "presets"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def zone_fault(zone: str) -> str:
    """What is wrong with the name of a time zone, with the nearest name; "" for nothing."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{zone!r} is not a time zone; {nearest(zone, available_timezones())}"
    return ""


def _parse(text: str, name: str, place: str) -> LogMapping:
    values = parse_toml(text, place)
    keys = set(LogMapping.__dataclass_fields__) - {"name"}
    faults = _unknown("key", values, keys) + [
        f"{key} is missing" for key in ("format", "raw", "events") if key not in values
    ]
    raise_faults(ConfigurationError, place, faults, hint="see docs/reference/session-logs.md")
    values["raw"] = {
        key: (columns,) if isinstance(columns, str) else tuple(columns) for key, columns in values["raw"].items()
    }
    values |= {name: tuple(values[name]) for name in ("required", "locations", "devices") if name in values}
    return LogMapping(name=name, **values)


def _unknown(kind: str, names: Any, choices: Any) -> list[str]:
    return [f"unknown {kind} {name!r}: {nearest(str(name), choices)}" for name in names if name not in choices]


IDLE_MINUTES = 30

REASONS = {
    "no_visitor": "no visitor id, or an empty one",
    "no_time": "no time, none that can be read, or one before 1970 or after 9999",
    "impossible_time": "a wall clock that summer time skipped",
    "early": "before the log's declared beginning",
    "future": "at or after the log's declared end",
    "bot": "meets the declared condition for bots",
    "location": "none of the declared locations, or none at all",
    "device": "none of the declared devices, or none at all",
    "duplicate": "equal in every column to an event that arrived before it",
}
"""Why an event is rejected, in the order in which the reasons are tried."""

FLAGS = {
    "late": "arrived after a later event of the same visitor; put in its place",
    "repeated_order": 'names an order that an earlier event of the visitor named; accepted as "other"',
    "unknown_action": 'an action that the mapping does not name; accepted as "other"',
    "ambiguous_time": "a wall clock that summer time shows twice; read as the first",
    "no_offset": "a time without an offset; read as UTC",
    "no_price": "a price that cannot be read; the event counts, without one",
    "open_price": "a price with two readings, such as 1.299 or 1,299, where the mapping has no decimal",
    "no_id": "a customer, an order or a key that is a word for nothing; the event counts, without one",
}
"""What is remarkable about an accepted event."""

EVENT_COLUMNS = ("arrival", *COLUMNS, "unknown_action", "ambiguous_time", "no_offset", "written_time", "written_price",
                 "written_id")  # fmt: skip
"""Columns of an event, accepted or rejected; those of `written` are what the log has where nothing can be read,
or where a price has two readings."""

PLACE_COLUMNS = ("late", "repeated_order", "place", "session")
"""What an accepted event has besides."""

_TEXTS = ("visitor", "customer", "device", "location", "channel", "page", "query", "order_id", "key")
_IDS = ("visitor", "customer", "order_id", "key")
_NO_VALUE = tuple(sorted(NOTHING))
"""Texts that say that there is no value: of ids, times and prices. A search or a page may be called so."""
_SAME = (*_TEXTS, "time", "price", "action", "unknown_action", "ambiguous_time")
_IN_ORDER = "PARTITION BY visitor ORDER BY time, arrival"
_LAST = 253_402_300_800_000_000  # the first microsecond of the year 10000
_CLOCK_STEPS = (3_600_000_000, 1_800_000_000)  # by how much clocks are put back: an hour, on Lord Howe half of one


def rows_sql(
    mapping: LogMapping, source: str, present: Collection[str], *, arrival: str | None = None, place: str = ""
) -> str:
    """SQL that reads the rows of a log under the names of `mapping.raw`."""
    # It adds `arrival`, the number of the row in the log from 1; of the item, where a column of lists is unnested.
    faults = [
        f"{name}: none of {', '.join(columns)}; {nearest(columns[0], present)}"
        for name, columns in mapping.raw.items()
        if name in mapping.required and not set(columns) & set(present)
    ]
    raise_faults(
        ConfigurationError,
        f"{place}mapping {mapping.name!r} does not fit the log's columns",
        faults,
        hint="name the columns under [raw] of a mapping of your own",
        code="mapping-not-fit-log",
    )
    if mapping.unnest is not None and mapping.unnest not in present:
        raise ConfigurationError(
            f"{place}mapping {mapping.name!r}: no column {mapping.unnest!r}", hint=nearest(mapping.unnest, present)
        )
    columns = [] if arrival is None else [f"{arrival} AS arrival"]
    columns += [
        f"{_first(columns_of_name, present)} AS {quoted(name)}" for name, columns_of_name in mapping.raw.items()
    ]
    if mapping.unnest is not None:
        columns.append(f"unnest({quoted(mapping.unnest)}) AS item")
    rows = f"SELECT {', '.join(columns)} FROM {source}"
    return rows if arrival is not None else f"SELECT *, row_number() OVER () AS arrival FROM ({rows})"


def events_sql(mapping: LogMapping, rows: str) -> str:
    """SQL of one event per row, with `reason` (null for an accepted event) and its flags."""
    texts = [f"{_text(mapping.events.get(name, 'NULL'), name in _IDS)} AS {name}" for name in _TEXTS]
    written = {name: f"CAST({mapping.events[name]} AS STRING)" for name in _IDS[1:] if name in mapping.events}
    ids = " ".join(f"WHEN {_says_nothing(text)} AND trim({text}) <> '' THEN '{name} ' || {text}"
                   for name, text in written.items())  # fmt: skip
    cell = mapping.events.get("price", "NULL")
    price = _amount(cell, mapping.decimal)
    price = f"CASE WHEN abs({price}) < CAST('infinity' AS DOUBLE) THEN {price} END"  # not a number is not less
    meaning = "".join(f" WHEN {text_literal(name)} THEN '{action}'" for name, action in mapping.actions.items())
    meaning = f"CASE action_text{meaning} END" if meaning else "CAST(NULL AS STRING)"
    limits = [
        ("no_visitor", "visitor IS NULL"),
        ("no_time", f"wall IS NULL OR wall < 0 OR wall >= {_LAST}"),
        ("impossible_time", "time IS NULL"),
        ("early", "false" if mapping.since is None else f"time < {_microseconds(mapping.since)}"),
        ("future", "false" if mapping.until is None else f"time >= {_microseconds(mapping.until)}"),
        ("bot", "coalesce(bot, false)"),
        ("location", _outside("location", mapping.locations)),
        ("device", _outside("device", mapping.devices)),
    ]
    reason = "".join(f" WHEN {condition} THEN '{name}'" for name, condition in limits)
    return f"""
WITH raw AS ({rows}),
parsed AS (
  SELECT arrival, {", ".join(texts)}, {price} AS price, CAST({mapping.events["action"]} AS STRING) AS action_text,
    CASE {ids or "WHEN false THEN ''"} END AS written_id, CAST({cell} AS STRING) AS price_text,
    typeof({cell}) = 'VARCHAR' AS price_is_text, CAST({mapping.events["time"]} AS STRING) AS time_text,
    {_wall(mapping)} AS wall, {mapping.bot or "false"} AS bot
  FROM raw
),
classified AS (
  SELECT *, coalesce({meaning}, 'other') AS action,
    CASE WHEN {meaning} IS NULL THEN coalesce(action_text, '') END AS unknown_action, {_utc(mapping)},
    {_no_offset(mapping)} AS no_offset,
    CASE WHEN wall IS NULL OR wall < 0 OR wall >= {_LAST} THEN time_text END AS written_time,
    CASE WHEN {_is_doubtful(mapping.decimal)} THEN price_text END AS written_price, written_id
  FROM parsed
)
SELECT {", ".join(EVENT_COLUMNS)}, CASE{reason} END AS reason
FROM classified"""


def timed_sql(events: str) -> str:
    """SQL of the events without a reason, with time and arrival of the visitor's event before, in the order of time."""
    return f"""
SELECT visitor, customer, time, arrival, lag(time) OVER ({_IN_ORDER}) AS time_before,
  lag(arrival) OVER ({_IN_ORDER}) AS arrival_before
FROM {events} WHERE reason IS NULL"""


def duplicates_sql(events: str, timed: str) -> str:
    """SQL of the `arrival` of every event that equals an event which arrived before it."""
    return f"""
WITH twins AS (SELECT DISTINCT visitor AS twin_visitor, time AS twin_time FROM {timed} WHERE time = time_before),
counted AS (
  SELECT arrival, row_number() OVER (PARTITION BY {", ".join(_SAME)} ORDER BY arrival) AS copy
  FROM {events} JOIN twins ON visitor = twin_visitor AND time = twin_time WHERE reason IS NULL
)
SELECT arrival FROM counted WHERE copy > 1"""


def late_sql(timed: str) -> str:
    """SQL of the `arrival` of every event that arrived after a later event of its visitor."""
    return f"""
WITH disordered AS (SELECT DISTINCT visitor AS disordered_visitor FROM {timed} WHERE arrival < arrival_before),
running AS (
  SELECT arrival, time, max(time) OVER (PARTITION BY visitor ORDER BY arrival ROWS UNBOUNDED PRECEDING) AS latest
  FROM {timed} JOIN disordered ON visitor = disordered_visitor
)
SELECT arrival FROM running WHERE time < latest"""


def logins_sql(timed: str, duplicates: str, *, idle_minutes: float = IDLE_MINUTES) -> str:
    """SQL of the `arrival` of every event at which another customer logs in before the visitor was idle."""
    return f"""
WITH shared AS (SELECT visitor AS shared_visitor FROM {timed} GROUP BY visitor HAVING min(customer) <> max(customer)),
visits AS (
  SELECT visitor, customer, time, arrival,
    count(CASE WHEN {_idle(idle_minutes)} THEN 1 END) OVER ({_IN_ORDER} ROWS UNBOUNDED PRECEDING) AS visit
  FROM {timed} timed JOIN shared ON visitor = shared_visitor WHERE {_no_duplicate(duplicates)}
),
named AS (
  SELECT arrival, customer, lag(customer) OVER (PARTITION BY visitor, visit ORDER BY time, arrival) AS customer_before
  FROM visits WHERE customer IS NOT NULL
)
SELECT arrival FROM named WHERE customer <> customer_before"""


def repeats_sql(events: str) -> str:
    """SQL of the `arrival` of every order event that names an order which an earlier event of its visitor named."""
    # A duplicate that is among them is rejected anyway, and hides no other.
    return f"""
WITH orders AS (
  SELECT arrival, row_number() OVER (PARTITION BY visitor, order_id ORDER BY time, arrival) AS showing
  FROM {events} WHERE reason IS NULL AND action = 'order' AND order_id IS NOT NULL
)
SELECT arrival FROM orders WHERE showing > 1"""


def bounded_columns(event: str, place: str) -> str:
    """SQL of the columns of an accepted event: its own, and its place; an order shown again is no order."""
    action = f"CASE WHEN {place}.repeated_order THEN 'other' ELSE CAST({event}.action AS STRING) END AS action"
    own = [action if column == "action" else f"{event}.{column}" for column in EVENT_COLUMNS]
    return ", ".join([*own, *(f"{place}.{column}" for column in PLACE_COLUMNS)])


def places_sql(
    timed: str, duplicates: str, late: str, logins: str, repeats: str, *, idle_minutes: float = IDLE_MINUTES
) -> str:
    """SQL of `visitor`, `arrival` and the `PLACE_COLUMNS` of every accepted event: place and session from 1 on."""
    # An event and its duplicate are of one moment, so the time since the event before is the same with duplicates as
    # without.
    return f"""
WITH marked AS (
  SELECT timed.*, late.arrival IS NOT NULL AS late, logins.arrival IS NOT NULL AS login,
    repeats.arrival IS NOT NULL AS repeated_order
  FROM {timed} timed LEFT JOIN {late} late ON timed.arrival = late.arrival
    LEFT JOIN {logins} logins ON timed.arrival = logins.arrival
    LEFT JOIN {repeats} repeats ON timed.arrival = repeats.arrival
  WHERE {_no_duplicate(duplicates)}
)
SELECT visitor, arrival, late, repeated_order, CAST(row_number() OVER ({_IN_ORDER}) AS BIGINT) AS place,
  count(CASE WHEN {_idle(idle_minutes)} OR login THEN 1 END) OVER ({_IN_ORDER} ROWS UNBOUNDED PRECEDING) AS session
FROM marked"""


def sessions_sql(bounded: str, zone: str) -> str:
    """SQL of one row per session."""
    # Hour (0–23) and weekday (1 Monday – 7 Sunday) are those of the session's start in `zone`.
    counts = ", ".join(f"count(*) FILTER (WHERE action = '{action}') AS {_plural(action)}" for action in ACTIONS)
    length = ", ".join(f"'{action}'" for action in COUNTED)
    local = local_sql("began", zone)
    return f"""
WITH grouped AS (
  SELECT visitor, session, min(customer) AS customer, min(time) AS began, max(time) AS ended,
    count(*) FILTER (WHERE action IN ({length})) AS length, count(*) AS events, {counts},
    count(DISTINCT query) AS unique_queries, count(*) FILTER (WHERE action = 'order') > 0 AS purchase,
    min_by(device, place) FILTER (WHERE device IS NOT NULL) AS device, count(DISTINCT device) AS devices,
    min_by(channel, place) FILTER (WHERE channel IS NOT NULL) AS channel
  FROM {bounded} GROUP BY visitor, session
)
SELECT visitor, session, customer, began, ended, CAST(hour({local}) AS TINYINT) AS hour,
  CAST({weekday_sql(local)} AS TINYINT) AS weekday, length, events, {", ".join(map(_plural, ACTIONS))},
  unique_queries, purchase, device, devices, channel
FROM grouped"""


def positive_minutes(idle_minutes: float) -> float:
    """Return the minutes."""
    if not 0 < idle_minutes < float("inf"):
        raise VisirError(
            f"{idle_minutes} idle minutes: not a number above 0.",
            hint=f"the thesis uses {IDLE_MINUTES}",
            code="not-number-above",
        )
    return idle_minutes


def _idle(idle_minutes: float) -> str:
    return f"time_before IS NULL OR time - time_before > {round(idle_minutes * 60_000_000)}"


def _no_duplicate(duplicates: str) -> str:
    return f"NOT EXISTS (SELECT 1 FROM {duplicates} copies WHERE copies.arrival = timed.arrival)"


def _outside(column: str, accepted: tuple[str, ...]) -> str:
    """SQL of whether a column is none of the accepted values; where none are declared, all are accepted."""
    if not accepted:
        return "false"
    return f"coalesce({column} NOT IN ({', '.join(map(text_literal, accepted))}), true)"


def _wall(mapping: LogMapping) -> str:
    """Microseconds as written: since 1970 in UTC, or of the wall clock where times are local."""
    time = mapping.events["time"]
    if mapping.unit == "us":
        return f"TRY_CAST({time} AS BIGINT)"
    if mapping.unit in ("s", "ms"):  # exact to the microsecond, and null instead of an overflow
        factor = 1_000_000 if mapping.unit == "s" else 1_000
        return f"TRY_CAST(TRY_CAST({time} AS DECIMAL(28, 6)) * {factor} AS BIGINT)"
    moment, local = f"TRY_CAST({time} AS TIMESTAMP)", "true"
    if mapping.unit == "iso":  # "11:06:40 -0400", as Ruby, Shopify and Snowflake write it
        joined = f"regexp_replace(CAST({time} AS STRING), '\\s*([+-][0-9]{{2}}):?([0-9]{{2}})$', '\\1:\\2')"
        moment, local = f"coalesce(TRY_CAST({time} AS TIMESTAMPTZ), TRY_CAST({joined} AS TIMESTAMPTZ))", "false"
    return (
        f"CASE WHEN isfinite({moment}) THEN epoch_us({moment}) "
        f"WHEN {time} IS NOT NULL THEN visir_moment(CAST({time} AS STRING), {local}) END"
    )


def _text(cell: str, is_id: bool) -> str:
    """A text of an event; of an id that a data frame made a fraction the digits, and no word for nothing."""
    text = f"CAST({cell} AS STRING)"
    if not is_id:
        return f"nullif({text}, '')"
    whole = f"typeof({cell}) IN ('DOUBLE', 'FLOAT') AND abs(TRY_CAST({cell} AS DOUBLE)) < 9007199254740992"
    text = f"CASE WHEN {whole} THEN regexp_replace({text}, '[.]0$', '') ELSE {text} END"
    return f"CASE WHEN {text} = '' OR ({_says_nothing(text)}) THEN NULL ELSE {text} END"


def _says_nothing(text: str) -> str:
    # Few ids begin like such a word, so that few are looked at as a whole.
    letters = {letter for word in (*NOTHING, " ", "\t") for letter in (word[:1], word[:1].upper()) if letter}
    begins = tuple(sorted(map(ord, letters)))
    return f"ascii({text}) IN {begins} AND length({text}) <= {LONGEST_WORD} AND lower(trim({text})) IN {_NO_VALUE}"


def _amount(cell: str, decimal: str) -> str:
    """SQL of an amount: DuckDB reads numbers and "12,50 €", and what else people write goes to the reader of cells."""
    number, text = f"TRY_CAST({cell} AS DOUBLE)", f"CAST({cell} AS STRING)"
    plain = f"{number} IS NOT NULL AND typeof({cell}) <> 'BOOLEAN'"
    if decimal == "comma":  # "1.299" is no number then
        plain += f" AND (typeof({cell}) <> 'VARCHAR' OR NOT contains({text}, '.'))"
    comma = ""
    if decimal != "point":
        digits = f"replace(regexp_replace({text}, '[^0-9,-]', '', 'g'), ',', '.')"
        pattern = "[€$£]? ?-?[0-9]+,[0-9]{1,2} ?[€$£]?"
        comma = f"WHEN regexp_full_match({text}, '{pattern}') THEN TRY_CAST({digits} AS DOUBLE) "
    return (
        f"CASE WHEN {cell} IS NULL THEN NULL WHEN {plain} THEN {number} "  # most events have no price
        f"{comma}ELSE visir_amount({text}, '{decimal}') END"
    )


def _is_doubtful(decimal: str) -> str:
    """SQL of whether a price is written that cannot be read, or that has two readings."""
    unread = f"price IS NULL AND price_text IS NOT NULL AND lower(trim(price_text)) NOT IN {_NO_VALUE}"
    if decimal:
        return unread
    two_readings = "regexp_full_match(price_text, '[^0-9.,]*[1-9][0-9]{0,2}[.,][0-9]{3}[^0-9.,]*')"
    few = "(price_text LIKE '%.___%' OR price_text LIKE '%,___%')"  # "49.90" is looked at no further
    return f"({unread}) OR (price_is_text AND length(price_text) BETWEEN 5 AND 16 AND {few} AND {two_readings})"


def _utc(mapping: LogMapping) -> str:
    """`time` in UTC, null where the wall clock never showed it; and whether it showed it twice."""
    if mapping.unit != "local":
        return "wall AS time, false AS ambiguous_time"
    zone = text_literal(mapping.time_zone)

    def shows(moment: str) -> str:
        return f"coalesce(epoch_us(timezone({zone}, make_timestamptz({moment}))) = wall, false)"

    sane = f"CASE WHEN wall >= 0 AND wall < {_LAST} THEN wall END"
    guess = f"epoch_us(timezone({zone}, make_timestamp({sane})))"  # one of the two, whichever the engine prefers
    before = [f"{guess} - {step}" for step in _CLOCK_STEPS]
    after = [f"{guess} + {step}" for step in _CLOCK_STEPS]
    first = " ".join(f"WHEN {shows(moment)} THEN {moment}" for moment in (*before, guess))
    return f"CASE {first} END AS time, {' OR '.join(map(shows, (*before, *after)))} AS ambiguous_time"


def _no_offset(mapping: LogMapping) -> str:
    """SQL of whether a time has no offset although the unit asks for one."""
    if mapping.unit != "iso":
        return "false"
    offset = "(z|[A-Z]{3,5}|Z|[A-Z][A-Za-z_]+/[A-Za-z_/]+|[T :][0-9]{1,2}.*[+−-][0-9]{1,2}(:?[0-9]{2})?\\]?)$"
    return (
        f"CASE WHEN wall IS NULL OR time_text LIKE '%Z' THEN false ELSE NOT regexp_matches(time_text, '{offset}') END"
    )


def _first(columns: tuple[str, ...], present: Collection[str]) -> str:
    names = [quoted(column) for column in columns if column in present]
    if not names:
        return "NULL"
    return names[0] if len(names) == 1 else f"coalesce({', '.join(names)})"


def _plural(action: str) -> str:
    return {"query": "queries", "other": "others"}.get(action, f"{action}s")


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def quoted(name: str) -> str:
    """A name of a column as SQL, quotes included."""
    return '"' + name.replace('"', '""') + '"'
