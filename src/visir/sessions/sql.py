"""Words of DuckDB's SQL that the session modules share: texts, paths, local times, days of the week."""

from __future__ import annotations

from pathlib import Path


def text_literal(value: str) -> str:
    """`value` as a text literal, quotes included."""
    return "'" + value.replace("'", "''") + "'"


def path_literal(path: str | Path) -> str:
    """A path as a text literal, quotes included."""
    return text_literal(str(path))


def local_sql(moment: str, zone: str) -> str:
    """SQL of the wall clock of a time zone.

    Args:
        moment: SQL of microseconds since 1970, UTC.
        zone: A time zone, such as "Europe/Amsterdam".
    """
    return f"timezone({text_literal(zone)}, make_timestamptz(CAST({moment} AS BIGINT)))"


def weekday_sql(local: str) -> str:
    """SQL of the weekday of a wall clock, 1 (Monday) to 7."""
    return f"isodow({local})"
