"""A log of any size becomes events in buckets of visitors: what the engine reads at full speed, and what it cannot.

A log that is as it should be is read by the engine alone. What to do when it gives up is decided here: lines that are
no rows are left out and told (`log_repair`), files that are damaged as a whole are named, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.sessions.bucket import quoted_path
from visir.sessions.definition import events_sql, rows_sql
from visir.sessions.log_repair import REFUSED, check_heads, repaired_files
from visir.sessions.mapping import LogMapping
from visir.sessions.source import arrival_sql, table_sql
from visir.storage import Scratch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Error

ROWS_PER_BUCKET = 4_000_000
"""Rows of the log per bucket unless told otherwise."""


def read_events(
    engine: DuckDBPyConnection, mapping: LogMapping, files: Sequence[Path], scratch: Scratch, buckets: int | None
) -> list[str]:
    """Rows become events: a table for each bucket, in memory where there is one, otherwise a folder of files.

    Raises `VisirError` for files that cannot be read and `ConfigurationError` where the mapping does not fit.
    """
    import duckdb

    if mapping.format == "csv":
        check_heads(files, [column for own in mapping.raw.values() for column in own])
    cause: VisirError | None = None
    try:
        found = _read(engine, mapping, files, scratch, buckets)
        if not _swallowed(engine):
            return found
    except ConfigurationError:
        raise
    except duckdb.Error as fault:
        cause = _told(mapping, fault)
        if _of_the_mapping(fault):
            raise cause from fault
    if mapping.format == "parquet":
        _raise_damaged(engine, files)
        assert cause is not None
        raise cause
    readable = repaired_files(files, mapping.format, scratch)
    if cause is not None and readable == list(files):
        raise cause
    _forget(engine, scratch)
    try:
        found = _read(engine, mapping, readable, scratch, buckets)
    except duckdb.Error as fault:
        raise _told(mapping, fault) from fault
    where = _swallowed(engine)
    if where:
        raise VisirError(f"{where}: a quoted field that does not end as it should.", hint="mend or remove that line")
    return found


def write_malformed(engine: DuckDBPyConnection, scratch: Scratch, target: Path) -> int:
    """Lines of CSV and JSON files that are no rows, written with file, line and fault; their number."""
    parts: list[str] = []
    tables = {row[0] for row in engine.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "reject_errors" in tables:
        parts.append(
            "SELECT parse_filename(file_path) AS file, CAST(line AS BIGINT) AS line, "
            "ltrim(csv_line, chr(10) || chr(13)) AS text, min(error_message) AS fault "
            "FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY ALL"
        )
    refused = scratch.path / REFUSED
    if refused.is_file():
        columns = "{file: 'VARCHAR', line: 'BIGINT', text: 'VARCHAR', fault: 'VARCHAR'}"
        parts.append(f"SELECT * FROM read_json('{quoted_path(refused)}', format = 'nd', columns = {columns})")
    if not parts:
        return 0
    lines = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)}) ORDER BY file, line"
    count: int = engine.execute(f"SELECT count(*) FROM ({lines})").fetchall()[0][0]
    if count:
        engine.execute(f"COPY ({lines}) TO '{quoted_path(target)}' (FORMAT parquet)")
    return count


def _read(
    engine: DuckDBPyConnection, mapping: LogMapping, files: Sequence[Path], scratch: Scratch, buckets: int | None
) -> list[str]:
    table = table_sql(files, mapping)
    present = [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
    rows = rows_sql(mapping, table, present, arrival=arrival_sql(engine, files, mapping, present))
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
        f"COPY (SELECT *, {bucket} FROM ({events})) TO '{quoted_path(folder)}' "
        "(FORMAT parquet, PARQUET_VERSION v2, PARTITION_BY (bucket), COMPRESSION lz4_raw)"
    )
    folders = sorted(folder.glob("bucket=*"), key=lambda one: int(one.name.removeprefix("bucket=")))
    return [f"read_parquet('{quoted_path(one)}/*.parquet')" for one in folders]


def _swallowed(engine: DuckDBPyConnection) -> str:
    """The first place at which the engine took an open quote, or several lines, for one line that is no row."""
    tables = {row[0] for row in engine.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "reject_errors" not in tables:
        return ""
    found = engine.execute(
        "SELECT file_path, line FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
        "WHERE error_type = 'UNQUOTED VALUE' OR contains(ltrim(csv_line, chr(10) || chr(13)), chr(10)) "
        "ORDER BY file_path, line LIMIT 1"
    ).fetchall()
    return f"{found[0][0]}, line {found[0][1]}" if found else ""


def _forget(engine: DuckDBPyConnection, scratch: Scratch) -> None:
    """What an attempt left behind."""
    for table in ("bucket", "reject_errors", "reject_scans"):
        engine.execute(f"DROP TABLE IF EXISTS {table}")
    scratch.clear("events")


def _raise_damaged(engine: DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Raise for all Parquet files that are none, or whose values cannot be read to the end."""
    import duckdb

    faults: list[str] = []
    for file in files:
        try:
            engine.execute(f"SELECT bit_xor(hash(row_of_file)) FROM read_parquet('{quoted_path(file)}') row_of_file")
        except duckdb.Error as fault:
            why = _first_line(fault).removeprefix("Invalid Input Error: ")
            faults.append(why if str(file) in why else f"{file}: {why}")
    raise_faults(
        VisirError,
        "files of the log cannot be read",
        faults,
        hint="fetch them again and compare their sizes; leave out what cannot be had",
    )


def _of_the_mapping(fault: Error) -> bool:
    """Whether the engine understood no expression or name, rather than a file. ("Records" are lines of JSON.)"""
    import duckdb

    understood = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.OutOfMemoryException)
    return isinstance(fault, understood) and "json_read expected records" not in str(fault)


def _told(mapping: LogMapping, fault: Error) -> VisirError:
    import duckdb

    if isinstance(fault, (duckdb.OutOfMemoryException, duckdb.IOException)):
        hint = "room on the disk beside the folder to be made, and more memory (--memory) or more --buckets?"
        return VisirError(f"the log cannot be read: {_first_line(fault)}", hint=hint)
    return VisirError(
        f"mapping {mapping.name!r} cannot be applied to the log: {_first_line(fault)}",
        hint="compare the names and expressions under [raw] and [events] with the log's columns",
    )


def _first_line(fault: Error) -> str:
    """What the engine says, without its own query."""
    return str(fault).partition("\n\nLINE ")[0].strip()
