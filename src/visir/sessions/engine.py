"""DuckDB, as sessions use it: opened, closed, and its faults of disk and memory explained."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError, require
from visir.storage import Scratch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def duckdb_engine(
    place: Path,
    purpose: str,
    *,
    scratch: Scratch | None = None,
    threads: int | None = None,
    memory: str | None = None,
    **settings: Any,
) -> Iterator[DuckDBPyConnection]:
    """Open DuckDB for one piece of work."""
    require("duckdb", extra="sessions", purpose=purpose)
    import duckdb

    if scratch is not None:
        settings["temp_directory"] = str(scratch.folder("spill", "duckdb_temp_*"))
    if threads is not None:
        settings["threads"] = threads
    if memory is not None:
        settings["memory_limit"] = memory
    engine = duckdb.connect(config=settings)
    try:
        engine.execute("SET TimeZone = 'UTC'")
        with suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets it refuses, and shows none
            engine.execute("SET enable_progress_bar = false")
        yield engine
    except (duckdb.IOException, duckdb.OutOfMemoryException) as fault:
        reason = reason_of(str(fault))
        raise VisirError(
            f"{place}: {reason}",
            hint="make room on the disk, or give more memory (--memory), and run the same again",
        ) from fault
    finally:
        engine.close()


def without_query(message: str) -> str:
    """A message of DuckDB without the query that it quotes."""
    return message.partition("\n\nLINE ")[0].strip()


def reason_of(text: str) -> str:
    """What the system refused, from a message of DuckDB, which may be JSON and name files that are gone by now."""
    try:
        details = json.loads(text[max(text.find("{"), 0) :])
    except ValueError:
        return without_query(text)
    return os.strerror(int(details["errno"])) if "errno" in details else str(details.get("exception_message", text))
