"""How Spark reads a log: the rows with their numbers, and the types that DuckDB reads in the same files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.sessions.definition import quoted, rows_sql
from visir.sessions.mapping import LogMapping
from visir.sessions.reading import reading_error
from visir.sessions.source import table_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
    """The mapping's columns with the number of each row, from 1 (Parquet knows a row's place in its file); their names
    in the log; and how many rows there are."""
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
    columns = [f.col(_quoted_for_spark(name)).alias(f"c{number}") for number, name in enumerate(names)]
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


def _quoted_for_spark(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _address(file: Path | str) -> str:
    """A file as Spark reads it: it is not decoded, but *, ?, [, { are patterns."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", f"file://{file.absolute()}" if isinstance(file, Path) else file)


def _plain(address: str) -> str:
    """A file's address without the slashes that `file:/a` and `file:///a` differ in."""
    return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]+:", "", address).lstrip("/")
