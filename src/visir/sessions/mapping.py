"""A mapping: how a log's own columns become events. Declared in TOML, so that nothing about a log is in code.

An *event* is one request of one visitor, and has these columns, whatever log it came from:

| column | type | meaning |
|---|---|---|
| `visitor` | text | browser or device (a cookie); an event without one is rejected |
| `customer` | text or null | who is logged in or recognised |
| `time` | integer | microseconds since 1970 in UTC |
| `device` | text or null | PC, smartphone, … in the log's own words |
| `location` | text or null | where the visitor is: a country, in the log's own words |
| `channel` | text or null | how the visitor came: paid, organic, direct, … |
| `page` | text or null | the type of the page |
| `query` | text or null | what was searched for |
| `price` | number or null | price of the product seen, or of the order |
| `action` | text | one of `ACTIONS` |
| `order_id` | text or null | the number of an order: an order that is shown again is counted once |
| `key` | text or null | what distinguishes two events of the same moment (a step, an address) |
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from visir.display import Displayed
from visir.errors import ConfigurationError, nearest, raise_faults

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

    def __post_init__(self) -> None:
        faults = [*_unknown("format", [self.format], ("parquet", "csv", "json")), *_unknown("unit", [self.unit], UNITS)]
        faults += _unknown("delimiter", [self.delimiter], DELIMITERS)
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
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError(
            f"{place}: not valid TOML: {fault}", hint="mend that line", code="not-valid-toml"
        ) from fault
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
