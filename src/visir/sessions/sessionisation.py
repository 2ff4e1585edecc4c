"""Sessions of a log of any size, in bounded memory: the definition, run bucket by bucket.

Visitors are hashed into buckets, because nothing in the definition joins two visitors: memory follows the size of a
bucket (and of the largest visitor), not of the log. One thread works on one bucket, so that no work waits for another
and a file's bytes do not depend on their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from visir.progress import Progress
from visir.sessions.advice import advice
from visir.sessions.bucket import PARTS, write_bucket
from visir.sessions.counts import LogCounts, counts_document
from visir.sessions.definition import IDLE_MINUTES, positive_minutes
from visir.sessions.engine import duckdb_engine
from visir.sessions.folder import SESSIONS, part_name
from visir.sessions.mapping import LogMapping
from visir.sessions.reading import read_events, write_malformed
from visir.sessions.source import log_files
from visir.storage import FolderChange, Scratch, new_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def sessionise(
    source: str | Path | Sequence[str | Path],
    mapping: LogMapping,
    out: str | Path,
    *,
    idle_minutes: float = IDLE_MINUTES,
    buckets: int | None = None,
    threads: int | None = None,
    memory: str | None = None,
    replace: bool = False,
) -> LogCounts:
    """Write the sessions of a log into a new folder, and return what was counted.

    The folder appears complete or not at all. It holds

    - `sessions/*.parquet`: one row per session
    - `events/*.parquet`: the accepted events, each with its session. Both are sorted by visitor and time within a file,
      and each visitor is in one file.
    - `rejected/*.parquet`: the rejected events, each with the reason
    - `malformed.parquet`: the lines of CSV and JSON files that are not rows
    - `counts.json`: all counts, with the declarations they depend on, and what to look at

    Args:
        source: A file, a folder, a tar archive, or several of these.
        mapping: How the log's columns become events.
        out: The folder to make.
        idle_minutes: More minutes than this without a request end a session.
        buckets: Parts of the work; by default one per `reading.ROWS_PER_BUCKET` rows. Changes no result.
        threads: Default: one per core. Changes no result.
        memory: What the engine may hold ("2GB"); more is spilled to disk beside `out`. Changes no result.
        replace: Replace `out` where it exists.

    Raises:
        VisirError: `out` exists, or a file is damaged as a whole.
        ConfigurationError: The mapping does not fit the log.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from visir.sessions import preset
        >>> log = pa.table({"visitor": ["ann", "ann", None], "time": [0, 1, 2], "action": ["page", "order", "page"]})
        >>> pq.write_table(log, "log.parquet")
        >>> counts = sessionise("log.parquet", preset("events"), "out")
        >>> counts.sessions, counts.purchases, counts.rejected["no_visitor"]
        (1, 1, 1)
    """
    positive_minutes(idle_minutes)
    out = Path(out)
    purpose, kept_order = "Finding sessions in a log", {"preserve_insertion_order": True}
    with (
        new_folder(out, SESSIONS, replace=replace) as change,
        Scratch.beside(out) as scratch,
        duckdb_engine(out, purpose, scratch=scratch, threads=threads, memory=memory, **kept_order) as engine,
    ):
        files = log_files(source, mapping, scratch)
        tables = read_events(engine, mapping, files.read, scratch, buckets)
        malformed = write_malformed(engine, scratch, change.file("malformed.parquet"))
        total = _write(engine, tables, mapping, idle_minutes, change)
        counts = LogCounts.of(total, malformed=malformed, passed_over=files.passed_over)
        signs = advice(change.folder, mapping, counts)
        engine_name = f"duckdb {version('duckdb')}"
        change.write_json("counts.json", counts_document(counts, mapping, idle_minutes, engine_name, signs))
    return counts


def _threads(engine: DuckDBPyConnection) -> int:
    count: int = engine.execute("SELECT current_setting('threads')").fetchall()[0][0]
    return count


def _write(
    engine: DuckDBPyConnection, buckets: Sequence[str], mapping: LogMapping, idle_minutes: float, change: FolderChange
) -> Counter[str]:
    for number in range(len(buckets)):
        for part in PARTS:
            change.file(f"{part}/{part_name(number)}")
    threads = _threads(engine)
    workers = max(1, min(threads, len(buckets)))
    engine.execute(f"SET threads = {threads - workers + 1}")  # those who work on buckets, and who helps them
    total: Counter[str] = Counter()

    def write(number: int) -> Counter[str]:
        with engine.cursor() as cursor:
            name, folder = part_name(number), change.folder
            return write_bucket(cursor, buckets[number], name, folder, idle_minutes=idle_minutes, zone=mapping.zone)

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
