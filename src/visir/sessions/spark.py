"""The same sessions on Spark, for logs that are larger than one machine.

The SQL text is that of `definition`, step by step; only what surrounds it is Spark's. Spark reads Parquet with times in
microseconds (the layout of the preset `events`, or any mapping of that kind). Wall clocks, CSV and lists of hits are
read with DuckDB's functions, so such a log must be brought into that layout first.

Nothing here runs Python on the workers: the engine executes SQL, and numbers come back.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from visir.errors import ConfigurationError, VisirError, require
from visir.sessions.advice import advice
from visir.sessions.bucket import PARTS
from visir.sessions.counts import EVENT_COUNTS, SESSION_COUNTS, LogCounts, counts_document
from visir.sessions.definition import (
    EVENT_COLUMNS,
    IDLE_MINUTES,
    bounded_columns,
    duplicates_sql,
    events_sql,
    late_sql,
    logins_sql,
    places_sql,
    repeats_sql,
    rows_sql,
    sessions_sql,
    timed_sql,
)
from visir.sessions.dialect import SPARK
from visir.sessions.folder import SESSIONS
from visir.sessions.mapping import LogMapping
from visir.sessions.source import log_files, passed_over
from visir.storage import Scratch, new_folder
from visir.storage.removal import remove_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARRIVAL = "arrival_in_log"


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """What `spark_sessions` gives: frames with the columns of the files of docs/reference/session-logs.md, and the
    counts.
    """

    sessions: DataFrame
    events: DataFrame
    rejected: DataFrame
    counts: LogCounts


_SPARK_FILES = ("**/part-*", "**/_SUCCESS", "**/.*.crc")
"""What Spark calls the files that it writes."""


def sessionise_spark(
    spark: SparkSession,
    source: str | Path | Sequence[str | Path],
    mapping: LogMapping,
    out: str | Path,
    *,
    idle_minutes: float = IDLE_MINUTES,
    replace: bool = False,
) -> LogCounts:
    """Write the folder that `sessionise` writes, with Spark.

    The rows are those of `sessionise`, spread over other files. For logs elsewhere (HDFS, S3) see `spark_sessions`.

    Args:
        spark: A Spark session.
        source: The log, in paths that every worker sees.
        mapping: How the log's columns become events; Parquet with times in microseconds.
        out: The folder to make, in a path that every worker sees.
        idle_minutes: More minutes than this without a request end a session.
        replace: Replace `out` where it exists.

    Raises:
        VisirError: `out` exists.
        ConfigurationError: The mapping does not fit the log, or Spark.
    """
    require("pyspark", extra="spark", purpose="Finding sessions with Spark")
    import pyspark

    out = Path(out).absolute()
    with contextlib.ExitStack() as opened:
        scratch = opened.enter_context(Scratch.beside(out))
        files = [file.absolute() for file in log_files(source, _suits(mapping), scratch)]
        change = opened.enter_context(new_folder(out, SESSIONS, replace=replace))
        log = opened.enter_context(spark_sessions(spark, files, mapping, idle_minutes))
        for folder in (change.folder, change.folder.parent):
            folder.chmod(0o777)  # the workers may be other users
        count = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)  # given, so that Spark merges no partitions
        frames = (
            log.sessions.repartition(count, "visitor").sortWithinPartitions("visitor", "session"),
            log.events.repartition(count, "visitor").sortWithinPartitions("visitor", "place"),
            log.rejected.sortWithinPartitions("arrival"),
        )
        for part, frame in zip(PARTS, frames, strict=True):
            written = change.expect(part, *_SPARK_FILES)
            frame.write.option("maxRecordsPerFile", 0).parquet(_address(written), compression="zstd")
            _rename(written)
            change.written(part)
        counts = dataclasses.replace(log.counts, passed_over=passed_over(source, mapping, scratch))
        signs = advice(change.folder, mapping, counts)
        engine = f"spark {pyspark.__version__}"
        change.write_json("counts.json", counts_document(counts, mapping, idle_minutes, engine, signs))
        return counts


def _rename(folder: Path) -> None:
    """Give files the names that `sessionise` gives: sessions and their events are in two files of one name."""
    marks = [file.name for file in folder.iterdir() if file.name.startswith(("_", "."))]
    remove_files(folder, marks)  # Spark's own: the folder is complete when it has its name
    for file in folder.iterdir():
        file.rename(folder / f"part-{int(file.name.split('-')[1]):05d}.parquet")


@contextmanager
def spark_sessions(
    spark: SparkSession, files: Sequence[str | Path], mapping: LogMapping, idle_minutes: float = IDLE_MINUTES
) -> Iterator[SparkSessions]:
    """Sessions, accepted events and rejected events as frames of Spark, while the context lasts.

    The frames belong to a session of their own of `spark`, whose time zone is UTC. Frames that several steps need stay
    in memory and on the disks of the workers until the context ends.

    Args:
        spark: A Spark session.
        files: Parquet files in the order of the log: paths, or addresses that Spark can read, one per file.
        mapping: How the log's columns become events.
        idle_minutes: More minutes than this without a request end a session.

    Raises:
        VisirError: The idle time is not positive.
        ConfigurationError: The mapping does not fit the log, or Spark.
    """
    if idle_minutes <= 0:
        raise VisirError(f"{idle_minutes} idle minutes end every session.", hint="the thesis uses 30")
    session = _session(spark)
    held: list[DataFrame] = []

    def step(name: str, query: str, *, hold: bool = True) -> DataFrame:
        frame = session.sql(query)
        if hold:
            held.append(frame.persist())
        frame.createOrReplaceTempView(name)
        return frame

    try:
        log = _numbered_rows(session, files)
        log.createOrReplaceTempView("log")
        step("events", events_sql(mapping, rows_sql(_suits(mapping), "log", log.columns, arrival=_ARRIVAL), SPARK))
        step("timed", timed_sql("events"))
        step("duplicates", duplicates_sql("events", "timed"))
        step("late", late_sql("timed"))
        step("logins", logins_sql("timed", "duplicates", idle_minutes=idle_minutes))
        step("repeats", repeats_sql("events"))
        places = places_sql("timed", "duplicates", "late", "logins", "repeats", idle_minutes=idle_minutes)
        step("places", places, hold=False)
        events = step(
            "bounded",
            f"SELECT {bounded_columns('e', 'p')} FROM events e JOIN places p ON e.arrival = p.arrival",
        )
        sessions = step("sessions", sessions_sql("bounded", mapping.zone, SPARK))
        rejected = step(
            "rejected",
            f"SELECT {', '.join(f'e.{column}' for column in EVENT_COLUMNS)}, coalesce(e.reason, 'duplicate') AS reason "
            "FROM events e LEFT JOIN duplicates d ON e.arrival = d.arrival "
            "WHERE e.reason IS NOT NULL OR d.arrival IS NOT NULL",
        )
        yield SparkSessions(sessions, events, rejected, _counted(session))
    finally:
        for frame in held:
            frame.unpersist()


def _session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    return session


def _suits(mapping: LogMapping) -> LogMapping:
    if mapping.format != "parquet" or mapping.unit != "us" or mapping.unnest is not None:
        raise ConfigurationError(
            f"mapping {mapping.name!r} reads {mapping.format} with times of unit {mapping.unit!r}"
            + (" and lists" if mapping.unnest is not None else "")
            + "; with Spark, only Parquet with microseconds and one event a row can be read.",
            hint="bring the log into the layout of the preset 'events' first (docs/reference/session-logs.md)",
        )
    return mapping


def _numbered_rows(session: SparkSession, files: Sequence[str | Path]) -> DataFrame:
    """The log with the number of each row, from 1: Parquet knows a row's place in its file."""
    from pyspark.sql import functions as f

    addresses = [_address(file) if isinstance(file, Path) else file for file in files]
    log = session.read.option("mergeSchema", "true").parquet(*addresses)
    file, row = f.col("_metadata.file_path").alias("file_of_row"), f.col("_metadata.row_index").alias("row_of_file")
    where = log.select("*", file, row)
    rows = {_plain(unquote(row["file_of_row"])): row for row in where.groupBy("file_of_row").count().collect()}
    # A file without rows is in no row.
    counts = [rows[_plain(address)] for address in addresses if _plain(address) in rows]
    before = accumulate((count["count"] for count in counts), initial=0)
    starts = [(count["file_of_row"], start) for count, start in zip(counts, before, strict=False)]
    table = session.createDataFrame(starts, "file_of_row string, rows_before bigint")
    joined = where.join(f.broadcast(table), "file_of_row")
    return joined.select(*log.columns, (f.col("rows_before") + f.col("row_of_file") + 1).alias(_ARRIVAL))


def _address(path: Path) -> str:
    return f"file://{path.absolute()}"  # as it is: what Spark is given, it does not decode


def _plain(address: str) -> str:
    """A file's address without the slashes that `file:/a` and `file:///a` differ in."""
    return address.partition(":")[2].lstrip("/")


def _counted(session: SparkSession) -> LogCounts:
    total: Counter[str] = Counter({"read": session.table("events").count()})
    for table, query in (("bounded", EVENT_COUNTS), ("sessions", SESSION_COUNTS)):
        total.update(session.sql(f"SELECT {query} FROM {table}").collect()[0].asDict())
    for row in session.sql("SELECT reason, count(*) AS rows FROM rejected GROUP BY reason").collect():
        total[row["reason"]] += row["rows"]
    return LogCounts.of(total)
