"""The few words of SQL that engines do not share. Everything else in `definition` is one text for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes a text, the local time of a moment, and the day of the week.

    Args:
        name: Of the engine.
        local_time: Takes `{moment}` (microseconds since 1970, UTC) and `{zone}` (a literal).
        iso_weekday: Takes `{local}`; 1 on Monday.
        backslashes: Whether a backslash in a text literal escapes what follows.
    """

    name: str
    local_time: str
    iso_weekday: str
    backslashes: bool = False

    def literal(self, value: str) -> str:
        """`value` as a text literal of SQL, quotes included."""
        if self.backslashes:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"

    def local(self, moment: str, zone: str) -> str:
        """SQL of the wall clock of `zone` at `moment`."""
        return self.local_time.format(moment=moment, zone=self.literal(zone))

    def weekday(self, local: str) -> str:
        """SQL of the weekday of a wall clock, 1 (Monday) to 7."""
        return self.iso_weekday.format(local=local)


DUCKDB = Dialect("duckdb", "timezone({zone}, make_timestamptz(CAST({moment} AS BIGINT)))", "isodow({local})")

SPARK = Dialect(
    "spark", "from_utc_timestamp(timestamp_micros({moment}), {zone})", "weekday({local}) + 1", backslashes=True
)
"""In a Spark session whose time zone is UTC."""


def path_literal(path: str | Path) -> str:
    """A path as a text literal of DuckDB's SQL, quotes included."""
    return DUCKDB.literal(str(path))
