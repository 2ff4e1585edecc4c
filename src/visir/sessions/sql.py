"""Words of DuckDB's SQL that the session modules share: texts, paths, local times, days of the week."""

from __future__ import annotations

import re
from pathlib import Path

from visir.errors import VisirError
from visir.storage import FolderKind, read_checked


def text_literal(value: str) -> str:
    """`value` as a text literal, quotes included."""
    return "'" + value.replace("'", "''") + "'"


def path_literal(path: str | Path) -> str:
    """A path that is written to, as a text literal, quotes included."""
    return text_literal(str(path))


def source_literal(path: str | Path) -> str:
    """A file that is read, by its very name, as a text literal: to DuckDB *, ?, [ are patterns, ~ the home folder."""
    return text_literal(file_pattern(path))


def file_pattern(path: str | Path) -> str:
    """The pattern of DuckDB that one file fits alone; see `source_literal`."""
    name = str(Path(path).absolute())
    if "\\" in name and re.search(r"[*?\[]", name):
        raise VisirError(
            f"{path}: a backslash beside *, ? or [ in a name: DuckDB cannot be told to read this file and no other.",
            hint="give the file, or the folder, a name without a backslash",
            code="backslash-beside-name",
        )
    return re.sub(r"[*?\[]", r"[\g<0>]", name)


def table_of(*files: Path) -> str:
    """The table expression of Parquet files that are read as one; names of folders ("device=pc/") are no columns."""
    return f"read_parquet([{', '.join(map(source_literal, files))}], hive_partitioning = false)"


def local_sql(moment: str, zone: str) -> str:
    """SQL of the wall clock of a time zone."""
    # moment: SQL of microseconds since 1970, UTC.
    return f"timezone({text_literal(zone)}, make_timestamptz(CAST({moment} AS BIGINT)))"


def weekday_sql(local: str) -> str:
    """SQL of the weekday of a wall clock, 1 (Monday) to 7."""
    return f"isodow({local})"


# A folder of sessions, as it is read: the files that its manifest names, and no other file.

SESSIONS = FolderKind("sessions", "a folder of sessions", remedy="make one of a log: visir sessions make LOG")


def parts_of(folder: str | Path) -> list[tuple[Path, Path]]:
    """The files of sessions, each with the file of their events, in the order of their names."""
    folder = Path(folder)
    manifest = read_checked(folder, SESSIONS)
    names = sorted(name.partition("/")[2] for name in manifest.files if name.startswith("sessions/"))
    return [(folder / "sessions" / name, folder / "events" / name) for name in names]


def part_name(number: int) -> str:
    """The name of a part, counted from 0: names are in the order of the parts."""
    return f"part-{number:05d}.parquet"
