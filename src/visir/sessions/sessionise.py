"""Sessions of a log of any size, in bounded memory: the definition, run bucket by bucket.

Visitors are hashed into buckets, because nothing in the definition joins two visitors: memory follows the size of a
bucket (and of the largest visitor), not of the log.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError, require
from visir.files import atomic_folder, write_json
from visir.progress import Progress
from visir.sessions.definition import (
    FLAGS,
    IDLE_MINUTES,
    REASONS,
    bounded_sql,
    events_sql,
    firsts_sql,
    rows_sql,
    sessions_sql,
)
from visir.sessions.mapping import Mapping
from visir.sessions.source import log_files, table_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_PER_BUCKET = 4_000_000
"""Rows of the log per bucket unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of a log's rows. `read` = `kept` + the sum of `aside`; `malformed` lines are no rows and come on top.

    `aside` counts per reason (`definition.REASONS`), `flags` what is remarkable among the kept (`definition.FLAGS`).
    """

    read: int
    malformed: int
    kept: int
    aside: dict[str, int]
    flags: dict[str, int]
    visitors: int
    sessions: int
    identified: int
    purchases: int
    purchases_identified: int


def sessionise(
    source: str | Path | Sequence[str | Path],
    mapping: Mapping,
    out: str | Path,
    *,
    idle_minutes: float = IDLE_MINUTES,
    buckets: int | None = None,
    threads: int | None = None,
    memory: str | None = None,
    replace: bool = False,
) -> Counts:
    """Write the sessions of a log into a new folder `out`, and return what was counted.

    `sessions/*.parquet` holds one row per session, `events/*.parquet` the kept events with the session each belongs to
    (both sorted by visitor and time within a file, each visitor in one file), `aside/*.parquet` what was set aside and
    why, `malformed.parquet` the lines of a CSV that are no rows, and `counts.json` all counts with the declarations
    they depend on. `out` appears complete or not at all.

    `memory` bounds the engine ("2GB"; more is spilled to disk beside `out`); `buckets` defaults to one per
    `ROWS_PER_BUCKET` rows. Neither changes what is found. Raises `VisirError` where `out` exists (unless `replace`),
    `ConfigurationError` where the mapping does not fit.
    """
    require("duckdb", extra="sessions", purpose="Finding sessions in a log")
    if idle_minutes <= 0:
        raise VisirError(f"{idle_minutes} idle minutes end every session.", hint="the thesis uses 30")
    out = Path(out)
    with atomic_folder(out, replace=replace) as folder, tempfile.TemporaryDirectory(dir=out.parent) as name:
        scratch = Path(name)
        engine = _engine(scratch, threads, memory)
        files = log_files(source, mapping, scratch / "unpacked")
        _read(engine, mapping, table_sql(files, mapping), scratch, buckets)
        malformed = _malformed(engine, folder)
        counts = _buckets(engine, mapping, idle_minutes, scratch, folder, malformed)
        engine.close()
        write_json(folder / "counts.json", _told(counts, mapping, idle_minutes))
    return counts


def _engine(scratch: Path, threads: int | None, memory: str | None) -> DuckDBPyConnection:
    import duckdb

    settings: dict[str, Any] = {"temp_directory": str(scratch / "spill"), "preserve_insertion_order": True}
    if threads is not None:
        settings["threads"] = threads
    if memory is not None:
        settings["memory_limit"] = memory
    engine = duckdb.connect(config=settings)
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute("SET enable_progress_bar = false")
    return engine


def _read(engine: DuckDBPyConnection, mapping: Mapping, table: str, scratch: Path, buckets: int | None) -> None:
    """Rows become events, written into one folder per bucket."""
    import duckdb

    try:
        present = [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
        rows = rows_sql(mapping, table, present)
        if buckets is None:
            found = engine.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            buckets = max(1, -(-found // ROWS_PER_BUCKET))
        events = events_sql(mapping, rows)
        engine.execute(
            f"COPY (SELECT *, hash(coalesce(visitor, '')) % {buckets} AS bucket FROM ({events})) "
            f"TO '{_path(scratch / 'events')}' (FORMAT parquet, PARTITION_BY (bucket), COMPRESSION lz4)"
        )
    except duckdb.Error as fault:
        raise VisirError(
            f"mapping {mapping.name!r} cannot be applied to the log: {fault}",
            hint="compare the names and expressions under [raw] and [events] with the log's columns",
        ) from fault


def _malformed(engine: DuckDBPyConnection, folder: Path) -> int:
    """Lines of CSV files that the reader refused, written with file, line and fault; their number."""
    tables = {row[0] for row in engine.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "reject_errors" not in tables:
        return 0
    lines = (
        "SELECT DISTINCT parse_filename(file_path) AS file, line, csv_line AS text, min(error_message) AS fault "
        "FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY ALL ORDER BY file, line"
    )
    count: int = engine.execute(f"SELECT count(*) FROM ({lines})").fetchall()[0][0]
    if count:
        engine.execute(f"COPY ({lines}) TO '{_path(folder / 'malformed.parquet')}' (FORMAT parquet)")
    return count


def _buckets(
    engine: DuckDBPyConnection, mapping: Mapping, idle_minutes: float, scratch: Path, folder: Path, malformed: int
) -> Counts:
    parts = ("sessions", "events", "aside")
    for part in parts:
        (folder / part).mkdir()
    aside = dict.fromkeys(REASONS, 0)
    flags = dict.fromkeys(FLAGS, 0)
    total: Counter[str] = Counter()
    found = sorted((scratch / "events").glob("bucket=*"), key=lambda one: int(one.name.removeprefix("bucket=")))
    with Progress("finding sessions", len(found), "buckets") as advance:
        for number, bucket in enumerate(found):
            name = f"part-{number:05d}.parquet"
            engine.execute(f"CREATE OR REPLACE TEMP VIEW bucket AS SELECT * FROM '{_path(bucket)}/*.parquet'")
            engine.execute(f"CREATE OR REPLACE TEMP TABLE firsts AS {firsts_sql('bucket')}")
            engine.execute(
                f"CREATE OR REPLACE TEMP TABLE bounded AS {bounded_sql('firsts', idle_minutes=idle_minutes)}"
            )
            engine.execute(
                f"CREATE OR REPLACE TEMP TABLE found AS SELECT * FROM ({sessions_sql('bounded', mapping.zone)}) "
                "ORDER BY visitor, session"
            )
            refused = (
                "SELECT * EXCLUDE (reason, bucket), coalesce(reason, 'duplicate') AS reason FROM bucket "
                "WHERE reason IS NOT NULL OR arrival NOT IN (SELECT arrival FROM firsts) ORDER BY arrival"
            )
            outputs = ("SELECT * FROM found", "SELECT * FROM bounded ORDER BY visitor, place", refused)
            for part, query in zip(parts, outputs, strict=True):
                target = _path(folder / part / name)
                engine.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
            written = _path(folder / "aside" / name)
            for reason, count in engine.execute(f"SELECT reason, count(*) FROM '{written}' GROUP BY 1").fetchall():
                aside[reason] += count
            _add(total, engine, "SELECT count(*) AS read FROM bucket")
            _add(
                total,
                engine,
                "SELECT count(*) AS kept, count(*) FILTER (WHERE late) AS late, "
                "count(unknown_action) AS unknown_action, "
                "count(*) FILTER (WHERE ambiguous_time) AS ambiguous_time FROM bounded",
            )
            _add(
                total,
                engine,
                "SELECT count(*) AS sessions, count(DISTINCT visitor) AS visitors, count(customer) AS identified, "
                "count(*) FILTER (WHERE purchase) AS purchases, "
                "count(customer) FILTER (WHERE purchase) AS purchases_identified FROM found",
            )
            advance()
    for flag in flags:
        flags[flag] = total.pop(flag, 0)
    numbers = {name: total[name] for name in Counts.__dataclass_fields__ if name not in ("aside", "flags", "malformed")}
    return Counts(aside=aside, flags=flags, malformed=malformed, **numbers)


def _add(total: Counter[str], engine: DuckDBPyConnection, query: str) -> None:
    answer = engine.execute(query)
    names = [column[0] for column in answer.description or ()]
    total.update(dict(zip(names, answer.fetchall()[0], strict=True)))


def _told(counts: Counts, mapping: Mapping, idle_minutes: float) -> dict[str, Any]:
    import duckdb

    declared = {"mapping": mapping.name, "zone": mapping.zone, "idle_minutes": idle_minutes, "about": mapping.about}
    declared |= {bound: str(getattr(mapping, bound)) for bound in ("since", "until") if getattr(mapping, bound)}
    return {"counts": asdict(counts), "declared": declared, "engine": f"duckdb {duckdb.__version__}"}


def _path(path: Path) -> str:
    return str(path).replace("'", "''")
