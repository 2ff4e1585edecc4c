"""Reads a log of any size into events, in buckets of visitors.

DuckDB alone reads a log without faults. This module decides what happens when it gives up: lines that are not rows are
left out and listed (`log_repair`), files that are damaged as a whole are named, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.sessions.definition import events_sql, rows_sql
from visir.sessions.engine import without_query
from visir.sessions.log_repair import REJECTED_LINES, check_heads, repaired_files
from visir.sessions.mapping import LogMapping
from visir.sessions.source import arrival_sql, table_sql
from visir.sessions.sql import parquet_table, path_literal, source_literal
from visir.storage import Scratch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Error

ROWS_PER_BUCKET = 4_000_000
"""Rows of the log per bucket, by default."""


def read_events(
    engine: DuckDBPyConnection, mapping: LogMapping, files: Sequence[Path], scratch: Scratch, buckets: int | None
) -> list[str]:
    """Read the rows of a log as events."""
    import duckdb

    if mapping.format == "csv":
        check_heads(files, [column for columns in mapping.raw.values() for column in columns], mapping.delimiter)
    cause: VisirError | None = None
    try:
        tables = _read(engine, mapping, files, scratch, buckets)
        if not _merged_lines(engine):
            return tables
    except ConfigurationError:
        raise
    except duckdb.Error as fault:
        cause = reading_error(mapping, fault)
        if _is_of_mapping(fault):
            raise cause from fault
    if mapping.format == "parquet":
        _raise_damaged(engine, files)
        assert cause is not None
        raise cause
    readable = repaired_files(files, mapping.format, scratch, mapping.delimiter)
    if cause is not None and readable == list(files):
        raise cause
    _remove_attempt(engine, scratch)
    try:
        tables = _read(engine, mapping, readable, scratch, buckets)
    except duckdb.Error as fault:
        raise reading_error(mapping, fault) from fault
    place = _merged_lines(engine)
    if place:
        raise VisirError(f"{place}: a quoted field that does not end as it should.", hint="mend or remove that line")
    return tables


def write_malformed(engine: DuckDBPyConnection, scratch: Scratch, target: Path) -> int:
    """Write the lines of CSV and JSON files that are not rows, with file, line and fault."""
    parts: list[str] = []
    if _has_reject_table(engine):
        parts.append(
            "SELECT parse_filename(file_path) AS file, CAST(line AS BIGINT) AS line, "
            "ltrim(csv_line, chr(10) || chr(13)) AS text, min(error_message) AS fault "
            "FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY ALL"
        )
    rejected = scratch.path / REJECTED_LINES
    if rejected.is_file():
        columns = "{file: 'VARCHAR', line: 'BIGINT', text: 'VARCHAR', fault: 'VARCHAR'}"
        parts.append(f"SELECT * FROM read_json({source_literal(rejected)}, format = 'nd', columns = {columns})")
    if not parts:
        return 0
    lines = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)}) ORDER BY file, line"
    count: int = engine.execute(f"SELECT count(*) FROM ({lines})").fetchall()[0][0]
    if count:
        engine.execute(f"COPY ({lines}) TO {path_literal(target)} (FORMAT parquet)")
    return count


def _read(
    engine: DuckDBPyConnection, mapping: LogMapping, files: Sequence[Path], scratch: Scratch, buckets: int | None
) -> list[str]:
    table = table_sql(files, mapping)
    present = [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
    place = f"{files[0]}: " if len(files) == 1 else f"{files[0]} and {len(files) - 1} more: "
    rows = rows_sql(mapping, table, present, arrival=arrival_sql(engine, files, mapping, present), place=place)
    if buckets is None:
        count = engine.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        buckets = max(1, -(-count // ROWS_PER_BUCKET))
        if buckets > 1:  # as many for every thread
            threads: int = engine.execute("SELECT current_setting('threads')").fetchall()[0][0]
            buckets += -buckets % threads
    events = events_sql(mapping, rows)
    if buckets == 1:
        engine.execute(f"CREATE TABLE bucket AS {events}")
        return ["bucket"]
    # Events without a visitor are spread, because one bucket of all of them could be most of a log.
    folder = scratch.folder("events", "bucket=*/data_*.parquet")
    bucket = f"hash(coalesce(visitor, CAST(arrival AS STRING))) % {buckets} AS bucket"
    engine.execute(
        f"COPY (SELECT *, {bucket} FROM ({events})) TO {path_literal(folder)} "
        "(FORMAT parquet, PARQUET_VERSION v2, PARTITION_BY (bucket), COMPRESSION lz4_raw)"
    )
    folders = sorted(folder.glob("bucket=*"), key=lambda part: int(part.name.removeprefix("bucket=")))
    return [parquet_table(*sorted(part.glob("*.parquet"))) for part in folders]


def _has_reject_table(engine: DuckDBPyConnection) -> bool:
    tables = engine.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return ("reject_errors",) in tables


def _merged_lines(engine: DuckDBPyConnection) -> str:
    """The first place at which DuckDB took an open quote, or several lines, for one rejected line; "" for none."""
    if not _has_reject_table(engine):
        return ""
    places = engine.execute(
        "SELECT file_path, line FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
        "WHERE error_type = 'UNQUOTED VALUE' OR contains(ltrim(csv_line, chr(10) || chr(13)), chr(10)) "
        "ORDER BY file_path, line LIMIT 1"
    ).fetchall()
    return f"{places[0][0]}, line {places[0][1]}" if places else ""


def _remove_attempt(engine: DuckDBPyConnection, scratch: Scratch) -> None:
    """Remove what an attempt to read left behind."""
    for table in ("bucket", "reject_errors", "reject_scans"):
        engine.execute(f"DROP TABLE IF EXISTS {table}")
    scratch.clear("events")


def _raise_damaged(engine: DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Raise for all files that are no Parquet, or whose values cannot be read to the end."""
    import duckdb

    faults: list[str] = []
    for file in files:
        try:
            engine.execute(f"SELECT bit_xor(hash(row_of_file)) FROM {parquet_table(file)} row_of_file")
        except duckdb.Error as fault:
            reason = without_query(str(fault)).removeprefix("Invalid Input Error: ")
            faults.append(reason if str(file) in reason else f"{file}: {reason}")
    raise_faults(
        VisirError,
        "files of the log cannot be read",
        faults,
        hint="fetch them again and compare their sizes; leave out what cannot be had",
    )


def _is_of_mapping(fault: Error) -> bool:
    """Whether DuckDB understood no expression or name, rather than a file. ("Records" are lines of JSON.)"""
    import duckdb

    of_sql = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.OutOfMemoryException)
    return isinstance(fault, of_sql) and "json_read expected records" not in str(fault)


def reading_error(mapping: LogMapping, fault: Error) -> VisirError:
    """What DuckDB raised while it read a log by a mapping, as an error that says what to do."""
    import duckdb

    if isinstance(fault, (duckdb.OutOfMemoryException, duckdb.IOException)):
        hint = "room on the disk beside the folder to be made, and more memory (--memory) or more --buckets?"
        return VisirError(f"the log cannot be read: {without_query(str(fault))}", hint=hint)
    return VisirError(
        f"mapping {mapping.name!r} cannot be applied to the log: {without_query(str(fault))}",
        hint="compare the names and expressions under [raw] and [events] with the log's columns",
        code="mapping-cannot-applied-log",
    )
