"""A folder of sessions, as it is read: the files that its manifest names, and no other file."""

from __future__ import annotations

from pathlib import Path

from visir.sessions.sql import parquet_table
from visir.storage import FolderKind, read_checked

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


def table_of(*files: Path) -> str:
    """The table expression of Parquet files that are read as one."""
    return parquet_table(*files)
