"""The same sessions on Spark, for logs that are larger than one machine.

Spark reads the log and brings the rows of each visitor together: one shuffle. In each partition DuckDB, on the worker,
finds the sessions as it does on one machine (`bucket`): nothing in the definition joins two visitors. So there is one
definition and one engine, and the rows are the same to the last bit. Spark evaluates no SQL of the mapping: it gives
some of it another meaning (`substring(visitor, 0, 3)`), and a visitor that is one for DuckDB and two for Spark would
be in two partitions.

Spark's own SQL was tried: its windows sort the rows once for each order, and its plans read the log several times.

The Python of the workers needs visir with the extra "sessions". What Spark reads is Parquet, one event a row.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from visir.errors import ConfigurationError, VisirError, raise_faults, require
from visir.sessions.definition import IDLE_MINUTES, LogMapping, events_sql, positive_minutes, quoted, rows_sql
from visir.sessions.making import PARTS, advice, write_bucket
from visir.sessions.reading import reading_error
from visir.sessions.source import duckdb_engine, log_files, table_sql
from visir.sessions.sql import SESSIONS, part_name
from visir.sessions.table_labels import LogCounts, counts_document
from visir.storage import Scratch, new_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# How Spark reads a log: the rows with their numbers, and the types that DuckDB reads in the same files.

ARRIVAL = "number of the row in the log"  # beside the log's own columns


def log_session(spark: SparkSession) -> SparkSession:
    """A session of its own, in which a log is read as DuckDB reads it, whatever the settings of `spark` are."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.caseSensitive", "false")  # as DuckDB
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "false")  # a log that is read in part has other sessions
    session.conf.set("spark.sql.files.ignoreMissingFiles", "false")
    session.conf.set("spark.sql.parquet.binaryAsString", "false")
    session.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", "true")
    for name in ("datetimeRebaseModeInRead", "int96RebaseModeInRead"):
        session.conf.set(f"spark.sql.parquet.{name}", "CORRECTED")
    session.conf.set("spark.sql.adaptive.enabled", "false")  # which would merge partitions: their number is known
    session.conf.set("spark.sql.shuffle.partitions", "8")  # for counts of rows; `_by_visitor` sets its own
    return session


def numbered_rows(
    session: SparkSession, files: Sequence[str | Path], mapping: LogMapping
) -> tuple[DataFrame, list[str], int]:
    """The mapping's columns with the number of each row, from 1; their names in the log; how many rows there are."""
    # Spark's own names are c0, c1, …: PySpark cannot call a column by every name.
    from pyspark.sql import functions as f

    hidden = [f"{file}" for file in files if str(file).rpartition("/")[2].startswith((".", "_"))]
    hint = "give these files other names, or name the others one by one"
    raise_faults(VisirError, 'Spark passes over files whose names begin with "." or "_"', hidden, hint=hint)
    addresses = {str(file): _address(file) for file in files}  # a file twice: once
    plainly = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")  # no partitions of paths
    log = plainly.parquet(*addresses.values())
    rows_sql(mapping, "log", log.columns)  # names that the log does not have
    names = dict.fromkeys(name for columns in mapping.raw.values() for name in columns if name in log.columns)
    columns = [f.col("`" + name.replace("`", "``") + "`").alias(f"c{number}") for number, name in enumerate(names)]
    place = (f.col("_metadata.file_path").alias("file_of_row"), f.col("_metadata.row_index").alias("row_of_file"))
    where = log.select(*columns, *place)
    rows = {_plain(unquote(row["file_of_row"])): row for row in where.groupBy("file_of_row").count().collect()}
    plain = [_plain(f"file://{file.absolute()}" if isinstance(file, Path) else file) for file in files]
    counts = [rows[file] for file in plain if file in rows]  # a file without rows is in no row
    before = list(accumulate((count["count"] for count in counts), initial=0))
    starts = [(count["file_of_row"], start) for count, start in zip(counts, before, strict=False)]
    table = session.createDataFrame(starts, "file_of_row string, rows_before bigint")
    joined = where.join(f.broadcast(table), "file_of_row")  # a file that the log has twice is in the table twice
    arrival = f.col("rows_before") + f.col("row_of_file") + 1
    own = [f"c{number}" for number in range(len(columns))]
    return joined.select(*own, arrival.alias(f"c{len(own)}")), [*names, ARRIVAL], before[-1]


def types_of_files(files: Sequence[Path], mapping: LogMapping) -> dict[str, str]:
    """The columns of the mapping that the files have, with the types that DuckDB reads."""
    import duckdb

    wanted = {name for columns in mapping.raw.values() for name in columns}
    with duckdb.connect() as engine:
        try:
            rows = engine.execute(f"DESCRIBE SELECT * FROM {table_sql(files, mapping)}").fetchall()
        except duckdb.Error as fault:
            raise reading_error(mapping, fault) from fault
    return {row[0]: row[1] for row in rows if row[0] in wanted}


def columns_as_duckdb_reads_them(log: pa.Schema, expected: Mapping[str, str]) -> list[str]:
    """SQL of the log's columns in the types that DuckDB reads in the files."""
    import duckdb

    with duckdb.connect() as engine:
        engine.register("log", log.empty_table())
        types = {row[0]: row[1] for row in engine.execute("DESCRIBE log").fetchall()}
    del types[ARRIVAL]
    pairs = {name: (types.get(name), expected.get(name, type)) for name, type in (types | dict(expected)).items()}
    faults = [
        f"{name}: {type} for DuckDB, {f'{of_spark} for Spark' if of_spark else 'not seen by Spark'}"
        for name, (of_spark, type) in pairs.items()
        if of_spark is None or not (type == of_spark or _is_same_value(of_spark, type))
    ]
    raise_faults(
        ConfigurationError,
        "Spark reads columns of the log otherwise than DuckDB",
        faults,
        hint="write these columns as texts or numbers into the files, or use sessionise, on one machine",
    )
    return [
        f"CAST({quoted(name)} AS {type}) AS {quoted(name)}" if type != of_spark else quoted(name)
        for name, (of_spark, type) in pairs.items()
    ]


def _is_same_value(of_spark: str, of_duckdb: str) -> bool:
    """Whether a value that Spark read as one type is, cast to the other, what DuckDB reads."""
    whole = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(20,0\)")
    if whole.fullmatch(of_spark) and whole.fullmatch(of_duckdb):
        return True
    as_they_are = (("TIMESTAMP WITH TIME ZONE", "TIMESTAMP"), ("VARCHAR", "JSON"))  # INT96; times are in UTC here
    return of_spark == '"NULL"' or (of_spark, of_duckdb) in as_they_are


def reason_of(message: str) -> str:
    """The line of a message of Spark that tells most: the last cause, without Java's lines."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1 if causes else 0]


def _address(file: Path | str) -> str:
    """A file as Spark reads it: it is not decoded, but *, ?, [, { are patterns."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", f"file://{file.absolute()}" if isinstance(file, Path) else file)


def _plain(address: str) -> str:
    """A file's address without the slashes that `file:/a` and `file:///a` differ in."""
    return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]+:", "", address).lstrip("/")


ROWS_PER_PARTITION = 500_000
"""Rows of the log in a partition: some 300 MB in the worker's DuckDB."""

MEMORY = "2GB"
"""What DuckDB may hold in one task; more is spilled to the worker's disk."""

_VISITOR = "visitor_of_row"
_PURPOSE = "Finding sessions with Spark"


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """Frames with the columns of the files of docs/reference/session-logs.md, and the counts."""

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
    """Write the folder that `sessionise` writes, with Spark."""
    # The rows are those of `sessionise`, spread over other files. For logs elsewhere (HDFS, S3) see `spark_sessions`.
    require("pyspark", extra="spark", purpose=_PURPOSE)
    import pyspark

    out = Path(out).absolute()
    work = _Work(_suits(mapping), positive_minutes(idle_minutes), memory)
    with Scratch.beside(out) as scratch:
        log = log_files(source, mapping, scratch)
        files = [file.absolute() for file in log.read]
        work.expected = types_of_files(files, mapping)
        with new_folder(out, SESSIONS, replace=replace) as change, _python_of_workers(spark):
            rows, partitions = _by_visitor(spark, files, work)
            for part in PARTS:
                for number in range(partitions):
                    change.file(f"{part}/{part_name(number)}")
            with _writable((change.folder, change.folder.parent, *(change.folder / part for part in PARTS))):
                counts = _counted(rows.mapInArrow(partial(_written, work, change.folder), "counts string"))
            counts = dataclasses.replace(counts, passed_over=log.passed_over)
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
    """Sessions, accepted events and rejected events as frames of Spark, while the context lasts."""
    # The frames belong to a session of their own of `spark`, whose time zone is UTC. They stay in memory and on the
    # disks of the workers until the context ends. A visitor is in one partition; partitions are sorted as the files
    # are.
    require("pyspark", extra="spark", purpose=_PURPOSE)
    from pyspark.sql.pandas.types import from_arrow_schema

    work = _Work(_suits(mapping), positive_minutes(idle_minutes), memory)
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
    """What is done in each partition."""

    mapping: LogMapping  # how rows become events
    idle_minutes: float  # more minutes than this without a request end a session
    memory: str  # what DuckDB may hold
    # The columns of the mapping that the log has, with the types that DuckDB reads; empty if unknown.
    expected: dict[str, str] = dataclasses.field(default_factory=dict)
    log: pa.Schema | None = None  # the columns of the rows, which an empty partition does not know; set by `learn`
    rows: str = ""  # SQL of `rows_sql` over the table `log`; set by `learn`
    # The columns of each of `PARTS`; set by `learn`.
    schemas: dict[str, pa.Schema] = dataclasses.field(default_factory=dict)

    def learn(self, log: pa.Schema, names: Sequence[str]) -> None:
        """Find the sessions of no rows: mistakes in the mapping are found before Spark has begun."""
        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.log = pa.schema([field.with_name(name) for field, name in zip(log, names, strict=True)])
        columns = [quoted(ARRIVAL), *columns_as_duckdb_reads_them(self.log, self.expected)]
        present = [name for name in names if name != ARRIVAL]
        source = f"(SELECT {', '.join(columns)} FROM log)"
        self.rows = rows_sql(self.mapping, source, present, arrival=quoted(ARRIVAL))
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
            log = (pa.RecordBatch.from_arrays(batch.columns, schema=self.log) for batch in batches)
            engine.register("log", pa.RecordBatchReader.from_batches(self.log, log))
            engine.execute(f"CREATE TABLE bucket AS {events_sql(self.mapping, self.rows)}")
            return write_bucket(
                engine, "bucket", name, scratch.path, idle_minutes=self.idle_minutes, zone=self.mapping.zone
            )

    def visitor_column(self) -> str | None:
        """The column of the log that is the visitor as it is; None where it must be computed."""
        present = [] if self.log is None else self.log.names
        columns = [name for name in self.mapping.raw.get(self.mapping.events["visitor"], ()) if name in present]
        return columns[0] if len(columns) == 1 else None

    def with_visitor(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On a worker: these rows, with the visitor. Those that have none are spread: they could be most of a log."""
        import pyarrow as pa

        visitor = f"nullif(CAST({self.mapping.events['visitor']} AS STRING), '')"
        query = f"SELECT coalesce({visitor}, CAST(arrival AS STRING)) AS visitor FROM ({self.rows})"
        with duckdb_engine(Path("log"), _PURPOSE, threads=1, memory=self.memory) as engine:
            for batch in batches:
                engine.register("log", pa.Table.from_arrays(batch.columns, schema=self.log))
                texts = pa.array([row[0] for row in engine.execute(query).fetchall()], pa.string())
                yield pa.RecordBatch.from_arrays([*batch.columns, texts], names=[*batch.schema.names, _VISITOR])


def _written(work: _Work, folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: write the files of one partition. A task that Spark tries again replaces them."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = part_name(context.partitionId())
    with Scratch.beside(folder / name) as scratch:
        counts = work.write(batches, scratch, name)
        for part in PARTS:
            (scratch.path / part / name).replace(folder / part / name)
    yield pa.RecordBatch.from_pydict({"counts": [json.dumps(counts)]})


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
    yield _row_of_parts(work, {"counts": pa.array([json.dumps(counts)])}, 1)


def _row_of_parts(work: _Work, columns: dict[str, pa.Array], length: int) -> pa.RecordBatch:
    import pyarrow as pa

    types = {part: pa.struct(list(schema)) for part, schema in work.schemas.items()} | {"counts": pa.string()}
    arrays = [columns.get(name, pa.nulls(length, type)) for name, type in types.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


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
            code="python-of-workers",
        )
    return VisirError(f"a worker of Spark: {reason}", hint="its log has the rest; with too little memory, give more")


def _by_visitor(spark: SparkSession, files: Sequence[str | Path], work: _Work) -> tuple[DataFrame, int]:
    """The rows of the log, those of a visitor in one partition, and how many partitions there are."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    session = log_session(spark)
    try:
        rows, names, count = numbered_rows(session, files, work.mapping)
        work.learn(rows.limit(0).toArrow().schema, names)
    except (PySparkException, Py4JJavaError) as fault:
        raise VisirError(
            f"Spark cannot read the log: {reason_of(str(fault))}",
            hint="the same column must have the same type in all files, and a type that Spark has",
        ) from fault
    partitions = max(1, -(-count // ROWS_PER_PARTITION))
    column = work.visitor_column()
    if column is None:
        rows = rows.mapInArrow(
            work.with_visitor, StructType([*rows.schema.fields, StructField(_VISITOR, StringType())])
        )
        return rows.repartition(partitions, _VISITOR).drop(_VISITOR), partitions
    column, arrival = (f.col(rows.columns[names.index(name)]).cast("string") for name in (column, ARRIVAL))
    return rows.repartition(partitions, f.coalesce(column, arrival)), partitions


@contextmanager
def _writable(folders: Sequence[Path]) -> Iterator[None]:
    """Workers, who may be other users, can write into these folders while the context lasts."""
    modes = [folder.stat().st_mode & 0o7777 for folder in folders]
    for folder in folders:
        folder.chmod(0o777)
    try:
        yield
    finally:
        for folder, mode in zip(folders, modes, strict=True):
            folder.chmod(mode)


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


def _suits(mapping: LogMapping) -> LogMapping:
    if mapping.format != "parquet" or mapping.unnest is not None:
        raise ConfigurationError(
            f"mapping {mapping.name!r} reads {mapping.format}{' and lists' if mapping.unnest is not None else ''}; "
            "with Spark, only Parquet with one event a row can be read.",
            hint="bring the log into the layout of the preset 'events' first (docs/reference/session-logs.md)",
            code="mapping-reads-spark-parquet",
        )
    return mapping
