"""The same sessions on Spark, for logs that are larger than one machine.

Spark reads the log and brings the rows of each visitor together: one shuffle. In each partition DuckDB, on the worker,
finds the sessions as it does on one machine (`bucket`): nothing in the definition joins two visitors. So there is one
definition and one engine, and the rows are the same to the last bit. Spark's own SQL was tried: its windows sort the
rows once for each order, and its plans read the log several times.

The Python of the workers needs visir with the extra "sessions". What Spark reads is Parquet, one event a row.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from visir.errors import ConfigurationError, VisirError, require
from visir.sessions.advice import advice
from visir.sessions.bucket import PARTS, write_bucket
from visir.sessions.counts import LogCounts, counts_document
from visir.sessions.definition import IDLE_MINUTES, events_sql, rows_sql
from visir.sessions.engine import duckdb_engine
from visir.sessions.folder import SESSIONS
from visir.sessions.mapping import LogMapping
from visir.sessions.reading import reading_error
from visir.sessions.source import log_files, passed_over
from visir.storage import Scratch, new_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_PARTITION = 500_000
"""Rows of the log in a partition: some 300 MB in the worker's DuckDB."""

MEMORY = "2GB"
"""What DuckDB may hold in one task; more is spilled to the worker's disk."""

_ARRIVAL = "arrival_in_log"
_PURPOSE = "Finding sessions with Spark"


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """What `spark_sessions` gives: frames with the columns of the files of docs/reference/session-logs.md, and the
    counts.
    """

    sessions: DataFrame
    events: DataFrame
    rejected: DataFrame
    counts: LogCounts


def sessionise_spark(
    spark: SparkSession,
    source: str | Path | Sequence[str | Path],
    mapping: LogMapping,
    out: str | Path,
    *,
    idle_minutes: float = IDLE_MINUTES,
    memory: str = MEMORY,
    replace: bool = False,
) -> LogCounts:
    """Write the folder that `sessionise` writes, with Spark.

    The rows are those of `sessionise`, spread over other files. For logs elsewhere (HDFS, S3) see `spark_sessions`.

    Args:
        spark: A Spark session.
        source: The log, in paths that every worker sees.
        mapping: How the log's columns become events; of Parquet, one event a row.
        out: The folder to make, in a path that every worker sees.
        idle_minutes: More minutes than this without a request end a session.
        memory: What DuckDB may hold in one task ("2GB"); more is spilled to the worker's disk. Changes no result.
        replace: Replace `out` where it exists.

    Raises:
        VisirError: `out` exists.
        ConfigurationError: The mapping does not fit the log, or Spark; or the workers have no visir.
    """
    require("pyspark", extra="spark", purpose=_PURPOSE)
    import pyspark

    out = Path(out).absolute()
    work = _Work(_suits(mapping), _positive(idle_minutes), memory)
    with Scratch.beside(out) as scratch:
        files = [file.absolute() for file in log_files(source, mapping, scratch)]
        with new_folder(out, SESSIONS, replace=replace) as change, _python_of_workers(spark):
            rows, partitions = _by_visitor(spark, files, work)
            for part in PARTS:
                for number in range(partitions):
                    change.file(f"{part}/{_name(number)}")
            for folder in (change.folder, change.folder.parent, *(change.folder / part for part in PARTS)):
                folder.chmod(0o777)  # the workers may be other users
            written = rows.mapInArrow(partial(_written, work, change.folder), "counts string")
            counts = _counted(written)
            counts = dataclasses.replace(counts, passed_over=passed_over(source, mapping, scratch))
            signs = advice(change.folder, mapping, counts)
            engine = f"spark {pyspark.__version__}"
            change.write_json("counts.json", counts_document(counts, mapping, idle_minutes, engine, signs))
            return counts


@contextmanager
def spark_sessions(
    spark: SparkSession,
    files: Sequence[str | Path],
    mapping: LogMapping,
    idle_minutes: float = IDLE_MINUTES,
    memory: str = MEMORY,
) -> Iterator[SparkSessions]:
    """Sessions, accepted events and rejected events as frames of Spark, while the context lasts.

    The frames belong to a session of their own of `spark`, whose time zone is UTC. They stay in memory and on the disks
    of the workers until the context ends. A visitor is in one partition; partitions are sorted as the files are.

    Args:
        spark: A Spark session.
        files: Parquet files in the order of the log: paths, or addresses that Spark can read, one per file.
        mapping: How the log's columns become events.
        idle_minutes: More minutes than this without a request end a session.
        memory: What DuckDB may hold in one task ("2GB"); more is spilled to the worker's disk. Changes no result.

    Raises:
        VisirError: The idle time is not positive.
        ConfigurationError: The mapping does not fit the log, or Spark; or the workers have no visir.
    """
    require("pyspark", extra="spark", purpose=_PURPOSE)
    from pyspark.sql.pandas.types import from_arrow_schema

    work = _Work(_suits(mapping), _positive(idle_minutes), memory)
    with _python_of_workers(spark):
        rows, _ = _by_visitor(spark, files, work)
        schemas = {part: from_arrow_schema(schema).simpleString() for part, schema in work.schemas.items()}
        columns = ", ".join(f"{part} {schema}" for part, schema in schemas.items())
        frame = rows.mapInArrow(partial(_rows_of_parts, work), f"{columns}, counts string").persist()
        try:
            counts = _counted(frame.where("counts IS NOT NULL").select("counts"))
            yield SparkSessions(
                **{part: frame.where(f"{part} IS NOT NULL").select(f"{part}.*") for part in PARTS}, counts=counts
            )
        finally:
            frame.unpersist()


@dataclass(slots=True)
class _Work:
    """What is done in each partition.

    Attributes:
        mapping: How rows become events.
        idle_minutes: More minutes than this without a request end a session.
        memory: What DuckDB may hold.
        log: The columns of the rows, which an empty partition does not know; set by `learn`.
        schemas: The columns of each of `PARTS`; set by `learn`.
    """

    mapping: LogMapping
    idle_minutes: float
    memory: str
    log: pa.Schema | None = None
    schemas: dict[str, pa.Schema] = dataclasses.field(default_factory=dict)

    def learn(self, log: pa.Schema) -> None:
        """Find the sessions of no rows: mistakes in the mapping are found before Spark has begun."""
        import duckdb
        import pyarrow.parquet as pq

        self.log = log
        with Scratch.temporary("sessions") as scratch:
            try:
                self.write(iter(()), scratch, "none.parquet")
            except duckdb.Error as fault:
                raise reading_error(self.mapping, fault) from fault
            self.schemas = {part: pq.read_schema(scratch.path / part / "none.parquet") for part in PARTS}

    def write(self, batches: Iterator[pa.RecordBatch], scratch: Scratch, name: str) -> Counter[str]:
        """Write the sessions of these rows into `scratch`/{sessions,events,rejected}/`name`; the counts."""
        import pyarrow as pa

        for part in PARTS:
            scratch.folder(part, name)
        with (
            Scratch.temporary("sessions-spill") as spill,
            duckdb_engine(scratch.path, _PURPOSE, scratch=spill, threads=1, memory=self.memory) as engine,
        ):
            engine.register("log", pa.RecordBatchReader.from_batches(self.log, batches))
            engine.execute(f"CREATE TABLE bucket AS {events_sql(self.mapping, 'SELECT * FROM log')}")
            return write_bucket(
                engine, "bucket", name, scratch.path, idle_minutes=self.idle_minutes, zone=self.mapping.zone
            )


def _written(work: _Work, folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: write the files of one partition. A task that Spark tries again replaces them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = _name(context.partitionId())
    with Scratch.beside(folder / name) as scratch:
        counts = work.write(batches, scratch, name)
        for part in PARTS:
            (scratch.path / part / name).replace(folder / part / name)
    yield _counts_row(counts)


def _rows_of_parts(work: _Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the rows of all parts, each in a column of its part; the last row has the counts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Scratch.temporary("sessions") as scratch:
        counts = work.write(batches, scratch, "rows.parquet")
        for part, schema in work.schemas.items():
            with pq.ParquetFile(scratch.path / part / "rows.parquet") as file:
                for batch in file.iter_batches():
                    rows = pa.StructArray.from_arrays(batch.columns, fields=list(schema))
                    yield _row_of_parts(work, {part: rows}, len(batch))
    yield _row_of_parts(work, {"counts": pa.array([_text_of(counts)])}, 1)


def _row_of_parts(work: _Work, columns: dict[str, pa.Array], length: int) -> pa.RecordBatch:
    import pyarrow as pa

    types = {part: pa.struct(list(schema)) for part, schema in work.schemas.items()} | {"counts": pa.string()}
    arrays = [columns.get(name, pa.nulls(length, type)) for name, type in types.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def _counts_row(counts: Counter[str]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"counts": [_text_of(counts)]})


def _text_of(counts: Counter[str]) -> str:
    return json.dumps(counts)


def _counted(frame: DataFrame) -> LogCounts:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    total: Counter[str] = Counter()
    try:
        rows = frame.collect()
    except (PySparkException, Py4JJavaError) as fault:
        raise _worker_error(str(fault)) from fault
    for row in rows:
        total.update(json.loads(row["counts"]))
    return LogCounts.of(total)


def _worker_error(trace: str) -> VisirError:
    """What a worker's Python raised, from its traceback."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    reason = next((line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[0])
    if "No module named" in trace:
        return ConfigurationError(
            f"the Python of Spark's workers: {reason}.",
            hint="install visir[sessions] for it, and name it in PYSPARK_PYTHON (the same Python everywhere)",
        )
    return VisirError(f"a worker of Spark: {reason}", hint="its log has the rest; with too little memory, give more")


def _by_visitor(spark: SparkSession, files: Sequence[str | Path], work: _Work) -> tuple[DataFrame, int]:
    """The rows of the log, those of a visitor in one partition, and how many partitions there are."""
    from pyspark.errors import AnalysisException, ParseException

    session = _session(spark)
    log, count = _numbered_rows(session, files)
    partitions = max(1, -(-count // ROWS_PER_PARTITION))
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    log.createOrReplaceTempView("log")
    rows = rows_sql(work.mapping, "log", log.columns, arrival=_ARRIVAL)
    # Rows without a visitor are spread, because one partition of all of them could be most of a log.
    visitor = f"coalesce(CAST({work.mapping.events['visitor']} AS STRING), CAST(arrival AS STRING))"
    try:
        frame = session.sql(f"SELECT * FROM ({rows}) DISTRIBUTE BY {visitor}")
        work.learn(frame.limit(0).toArrow().schema)
    except (AnalysisException, ParseException) as fault:
        raise ConfigurationError(
            f"mapping {work.mapping.name!r}: Spark cannot read {visitor}: {str(fault).splitlines()[0]}",
            hint="write the visitor in SQL that DuckDB and Spark share, such as coalesce(a, b)",
        ) from fault
    return frame, partitions


def _session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    session.conf.set("spark.sql.adaptive.enabled", "false")  # which would merge partitions: their number is known
    session.conf.set("spark.sql.shuffle.partitions", "8")  # for counts of rows; `_by_visitor` sets its own
    return session


@contextmanager
def _python_of_workers(spark: SparkSession) -> Iterator[None]:
    """On one machine, workers run this Python unless the user named another: Spark takes the first of the path."""
    context = spark.sparkContext
    before = context.pythonExec
    chosen = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if context.master.startswith("local") and not chosen:
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def _positive(idle_minutes: float) -> float:
    if idle_minutes <= 0:
        raise VisirError(f"{idle_minutes} idle minutes end every session.", hint="the thesis uses 30")
    return idle_minutes


def _suits(mapping: LogMapping) -> LogMapping:
    if mapping.format != "parquet" or mapping.unnest is not None:
        raise ConfigurationError(
            f"mapping {mapping.name!r} reads {mapping.format}{' and lists' if mapping.unnest is not None else ''}; "
            "with Spark, only Parquet with one event a row can be read.",
            hint="bring the log into the layout of the preset 'events' first (docs/reference/session-logs.md)",
        )
    return mapping


def _numbered_rows(session: SparkSession, files: Sequence[str | Path]) -> tuple[DataFrame, int]:
    """The log with the number of each row, from 1 (Parquet knows a row's place in its file), and how many there are."""
    from pyspark.sql import functions as f

    addresses = [_address(file) if isinstance(file, Path) else file for file in files]
    log = session.read.option("mergeSchema", "true").parquet(*addresses)
    file, row = f.col("_metadata.file_path").alias("file_of_row"), f.col("_metadata.row_index").alias("row_of_file")
    where = log.select("*", file, row)
    rows = {_plain(unquote(row["file_of_row"])): row for row in where.groupBy("file_of_row").count().collect()}
    # A file without rows is in no row.
    counts = [rows[_plain(address)] for address in addresses if _plain(address) in rows]
    before = list(accumulate((count["count"] for count in counts), initial=0))
    starts = [(count["file_of_row"], start) for count, start in zip(counts, before, strict=False)]
    table = session.createDataFrame(starts, "file_of_row string, rows_before bigint")
    joined = where.join(f.broadcast(table), "file_of_row")
    return joined.select(*log.columns, (f.col("rows_before") + f.col("row_of_file") + 1).alias(_ARRIVAL)), before[-1]


def _address(path: Path) -> str:
    return f"file://{path.absolute()}"  # as it is: what Spark is given, it does not decode


def _plain(address: str) -> str:
    """A file's address without the slashes that `file:/a` and `file:///a` differ in."""
    return address.partition(":")[2].lstrip("/")


def _name(number: int) -> str:
    return f"part-{number:05d}.parquet"
