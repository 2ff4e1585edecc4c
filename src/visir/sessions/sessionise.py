"""Sessions of a log of any size, in bounded memory: the definition, run bucket by bucket.

Visitors are hashed into buckets, because nothing in the definition joins two visitors: memory follows the size of a
bucket (and of the largest visitor), not of the log. One thread works on one bucket, so that no work waits for another
and a file's bytes do not depend on their number.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError, require
from visir.files import atomic_folder, write_json
from visir.progress import Progress
from visir.sessions.bucket import PARTS, quoted_path, write_bucket
from visir.sessions.counts import Counts, told
from visir.sessions.definition import IDLE_MINUTES, events_sql, rows_sql
from visir.sessions.mapping import Mapping
from visir.sessions.source import arrival_sql, log_files, table_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_PER_BUCKET = 4_000_000
"""Rows of the log per bucket unless told otherwise."""


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
        try:
            found = _read(engine, mapping, files, scratch, buckets)
            malformed = _malformed(engine, folder)
            counts = Counts.of(_write(engine, found, mapping, idle_minutes, folder), malformed=malformed)
        finally:
            engine.close()
        write_json(folder / "counts.json", told(counts, mapping, idle_minutes, f"duckdb {version('duckdb')}"))
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


def _threads(engine: DuckDBPyConnection) -> int:
    count: int = engine.execute("SELECT current_setting('threads')").fetchall()[0][0]
    return count


def _read(
    engine: DuckDBPyConnection, mapping: Mapping, files: Sequence[Path], scratch: Path, buckets: int | None
) -> list[str]:
    """Rows become events: a table for each bucket, in memory where there is one, otherwise a folder of files."""
    import duckdb

    table = table_sql(files, mapping)
    try:
        present = [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
        rows = rows_sql(mapping, table, present, arrival=arrival_sql(engine, files, mapping, present))
        if buckets is None:
            count = engine.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            buckets = max(1, -(-count // ROWS_PER_BUCKET))
            if buckets > 1:  # as many for every thread
                buckets += -buckets % _threads(engine)
        events = events_sql(mapping, rows)
        if buckets == 1:
            engine.execute(f"CREATE TABLE bucket AS {events}")
            return ["bucket"]
        # Events without a visitor are spread, because one bucket of all of them could be most of a log.
        bucket = f"hash(coalesce(visitor, CAST(arrival AS STRING))) % {buckets} AS bucket"
        engine.execute(
            f"COPY (SELECT *, {bucket} FROM ({events})) TO '{quoted_path(scratch / 'events')}' "
            "(FORMAT parquet, PARQUET_VERSION v2, PARTITION_BY (bucket), COMPRESSION lz4_raw)"
        )
    except duckdb.Error as fault:
        raise VisirError(
            f"mapping {mapping.name!r} cannot be applied to the log: {fault}",
            hint="compare the names and expressions under [raw] and [events] with the log's columns",
        ) from fault
    folders = sorted((scratch / "events").glob("bucket=*"), key=lambda one: int(one.name.removeprefix("bucket=")))
    return [f"read_parquet('{quoted_path(one)}/*.parquet')" for one in folders]


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
        engine.execute(f"COPY ({lines}) TO '{quoted_path(folder / 'malformed.parquet')}' (FORMAT parquet)")
    return count


def _write(
    engine: DuckDBPyConnection, buckets: Sequence[str], mapping: Mapping, idle_minutes: float, folder: Path
) -> Counter[str]:
    for part in PARTS:
        (folder / part).mkdir()
    threads = _threads(engine)
    workers = max(1, min(threads, len(buckets)))
    engine.execute(f"SET threads = {threads - workers + 1}")  # those who work on buckets, and who helps them
    total: Counter[str] = Counter()

    def write(number: int) -> Counter[str]:
        with engine.cursor() as own:
            name = f"part-{number:05d}.parquet"
            return write_bucket(own, buckets[number], name, folder, idle_minutes=idle_minutes, zone=mapping.zone)

    with ThreadPoolExecutor(workers) as pool, Progress("finding sessions", len(buckets), "buckets") as advance:
        tasks = [pool.submit(write, number) for number in range(len(buckets))]
        try:
            for task in as_completed(tasks):
                total.update(task.result())
                advance()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return total
