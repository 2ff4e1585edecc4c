"""A mapping: how a log's own columns become events. Declared in TOML, so that nothing about a log is in code.

An *event* is one request of one visitor, and has these columns, whatever log it came from:

| column | type | meaning |
|---|---|---|
| `visitor` | text | browser or device (a cookie); an event without one is set aside |
| `customer` | text or null | who is logged in or recognised |
| `time` | integer | microseconds since 1970 in UTC |
| `device` | text or null | PC, smartphone, … in the log's own words |
| `channel` | text or null | how the visitor came: paid, organic, direct, … |
| `page` | text or null | the type of the page |
| `query` | text or null | what was searched for |
| `price` | number or null | price of the product seen, or of the order |
| `action` | text | one of `ACTIONS` |
| `key` | text or null | whatever else tells two events of the same moment apart (a step, an address) |
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from visir.errors import ConfigurationError, nearest, raise_faults

ACTIONS = ("page", "query", "add", "remove", "order", "other")
"""What an event can be: a page opened, a query, an item put in or taken out of the basket, an order, anything else."""

COUNTED = ("page", "query", "add", "remove")
"""Actions that make a session longer (thesis section 6.2). An order does not: it is what is to be predicted."""

COLUMNS = ("visitor", "customer", "time", "device", "channel", "page", "query", "price", "action", "key")

UNITS = ("s", "ms", "us", "iso", "local")
"""Times are numbers since 1970 (seconds, milliseconds, microseconds), ISO 8601 with an offset ("iso"; without one it
is UTC), or a wall clock without an offset ("local", in `time_zone`)."""


@dataclass(frozen=True, slots=True)
class LogMapping:
    """How a log's columns become events.

    `raw` names what is read: our name → the log's columns, of which at least one must exist where the name is in
    `required`; where several exist, the first that is not null counts, row by row (a column that was renamed).
    `events` holds one SQL expression over those names per column of an event; what is not mentioned is null.
    `actions` gives the log's action names their meaning; a name it lacks becomes "other" and is counted.
    `unnest` names a column of lists (the hits of a visit) that becomes one row per item, called `item`.
    `bot` is an SQL condition over the names of `raw`: rows that meet it are set aside. `since` and `until` bound the
    times that can be true, since inclusive and until exclusive; a log has no other way to know the future.
    Hours and weekdays are told in the time zone `zone`; times of the unit "local" are written in `time_zone`.
    """

    name: str
    format: str
    raw: dict[str, tuple[str, ...]]
    events: dict[str, str]
    about: str = ""
    required: tuple[str, ...] = ("visitor", "time")
    unit: str = "us"
    zone: str = "UTC"
    time_zone: str = "UTC"
    actions: dict[str, str] = field(default_factory=dict)
    unnest: str | None = None
    bot: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        faults = [*_unknown("format", [self.format], ("parquet", "csv", "json")), *_unknown("unit", [self.unit], UNITS)]
        faults += _unknown("column of an event", self.events, COLUMNS)
        faults += _unknown("meaning of an action", self.actions.values(), ACTIONS)
        faults += _unknown("required name", self.required, self.raw)
        faults += [f"events.{name} is missing" for name in ("visitor", "time", "action") if name not in self.events]
        for zone in (self.zone, self.time_zone):
            try:
                ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError):
                faults.append(f"{zone!r} is not a time zone")
        for name in ("since", "until"):
            bound = getattr(self, name)
            if bound is not None and bound.tzinfo is None:
                faults.append(f"{name} has no offset: is {bound.isoformat()} UTC or local?")
        raise_faults(ConfigurationError, f"mapping {self.name!r}", faults, hint="see docs/sessions.md")


def load_mapping(path: str | Path) -> LogMapping:
    """Read a mapping from a TOML file; all faults are listed at once (`ConfigurationError`)."""
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(f"{path}: no such file.", hint="name a TOML file or a preset (visir.sessions.presets)")
    return _parse(path.read_text("utf-8"), path.stem, str(path))


@cache
def preset(name: str) -> LogMapping:
    """A mapping that comes with visir, by name; an unknown name is answered with the nearest one."""
    if name not in presets():
        raise ConfigurationError(f"unknown preset {name!r}", hint=nearest(name, presets()))
    text = (resources.files("visir.sessions") / "presets" / f"{name}.toml").read_text("utf-8")
    return _parse(text, name, f"preset {name}")


@cache
def presets() -> tuple[str, ...]:
    """The names of the mappings that come with visir, sorted."""
    folder = resources.files("visir.sessions") / "presets"
    return tuple(sorted(one.name.removesuffix(".toml") for one in folder.iterdir() if one.name.endswith(".toml")))


def _parse(text: str, name: str, place: str) -> LogMapping:
    try:
        told: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError(f"{place}: not valid TOML: {fault}", hint="mend that line") from fault
    known = set(LogMapping.__dataclass_fields__) - {"name"}
    faults = _unknown("key", told, known) + [
        f"{key} is missing" for key in ("format", "raw", "events") if key not in told
    ]
    raise_faults(ConfigurationError, place, faults, hint="see docs/sessions.md")
    told["raw"] = {key: (own,) if isinstance(own, str) else tuple(own) for key, own in told["raw"].items()}
    if "required" in told:
        told["required"] = tuple(told["required"])
    return LogMapping(name=name, **told)


def _unknown(kind: str, names: Any, known: Any) -> list[str]:
    return [f"unknown {kind} {name!r}: {nearest(str(name), known)}" for name in names if name not in known]
