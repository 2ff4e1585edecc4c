"""Reads a log of any size into events, in buckets of visitors.

DuckDB alone reads a log without faults. This module decides what happens when it gives up: lines that are not rows are
left out and listed (`log_repair`), files that are damaged as a whole are named, all at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.files import iter_lines, open_binary
from visir.progress import Progress
from visir.sessions.definition import DELIMITERS, LogMapping, events_sql, rows_sql
from visir.sessions.source import arrival_sql, table_sql, without_query
from visir.sessions.sql import path_literal, source_literal, table_of
from visir.storage import Scratch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Error


# Repairs log files that DuckDB cannot read: lines that are rows stay, lines that are not are listed with a reason.

MAX_LINES = 1_000
"""A quoted field does not go on over more lines than this."""

MAX_LINE_BYTES = {"csv": 2_000_000, "json": 16_000_000}
"""Bytes of a line that DuckDB reads."""

REJECTED_LINES = "repaired/rejected.jsonl"
"""The file in the scratch folder that lists the rejected lines."""

_FETCH_AGAIN = "fetch the file again and compare its size; what is there of a .gz: gzip -dc FILE > NEW"
_FIX_HEAD = (
    "a head holds the names under [raw], with the mapping's delimiter between them, in UTF-8 (iconv -f … -t utf-8)"
)
_NOT_LINES = {
    b"[": "one object a line is read; an array becomes that by: jq -c '.[]' FILE > NEW.jsonl",
    b"{": "one object a line is read; objects of several lines become that by: jq -c . FILE > NEW.jsonl",
}
_OTHER_FILES = {
    b"PK\x03\x04": ("a zip archive, and no CSV file", "unpack it (unzip FILE) and name the files in it"),
    b"\x1f\x8b": ("compressed with gzip, though its name does not end in .gz", "rename it to end in .csv.gz"),
    b"\xff\xfe": ("written in UTF-16", "iconv -f utf-16 -t utf-8 FILE > NEW.csv"),
    b"\xfe\xff": ("written in UTF-16", "iconv -f utf-16 -t utf-8 FILE > NEW.csv"),
    b"PAR1": ("a Parquet file, and no CSV file", 'write format = "parquet" into the mapping'),
}
"""First bytes of files that are no CSV → what they are, and what to do."""

_QUOTE_FAULTS = {"open": "a quoted field that does not end", "after": "text after a closing quote"}


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that is not a row."""

    number: int  # its number in the file, from 1
    text: bytes  # its bytes
    fault: str  # what is wrong with it


def repaired_files(files: Sequence[Path], file_format: str, scratch: Scratch, delimiter: str = ",") -> list[Path]:
    """The files without faulty lines: each itself, or its repaired copy; a file without any row is left out."""
    # The rejected lines are written to `REJECTED_LINES`, one JSON object each: file, line, text (bytes that are not
    # UTF-8 as "\xff") and fault. Files that are damaged as a whole are named all at once.
    readable: list[Path] = []
    faults = _FileFaults()
    with (
        scratch.file(REJECTED_LINES).open("wb") as rejected,
        Progress("reading line by line", len(files), "files") as advance,
    ):
        for number, file in enumerate(files):
            name = f"repaired/{number}/{file.name.removesuffix('.gz')}"
            try:
                has_rows, is_copied = _repair(file, file_format, delimiter, scratch, name, rejected)
            except VisirError as fault:
                faults.add(fault)
            else:
                if has_rows:
                    readable.append(scratch.path / name if is_copied else file)
            advance()
    faults.throw()
    if not readable:
        raise _no_rows(files)
    return readable


def check_heads(files: Sequence[Path], columns: Iterable[str], delimiter: str = ",") -> None:
    """Check that the first line of every CSV file is a head that names a column of the mapping."""
    # An empty file passes, unless all are empty.
    expected = {column.casefold() for column in columns}
    faults, heads = _FileFaults(), 0
    for file in files:
        try:
            head = _head(file, next(iter(iter_lines(file)), None), delimiter)
        except VisirError as fault:
            faults.add(fault)
            continue
        heads += bool(head)
        if head and expected and not expected & {name.strip().casefold() for name in head}:
            names = repr(", ".join(head)[:200])
            hint = _delimiter_hint(head, expected, delimiter) or _FIX_HEAD
            faults.add(VisirError(f"{file}, line 1: none of the mapping's columns; it has {names}", hint=hint))
    faults.throw()
    if not heads:
        raise _no_rows(files)


class _FileFaults:
    """Files that are wrong as a whole, and what to do about them."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.hints: dict[str, None] = {}

    def add(self, fault: VisirError) -> None:
        self.faults.append(fault.message)
        self.hints[_FETCH_AGAIN if "decompressed" in fault.message else fault.hint] = None

    def throw(self) -> None:
        raise_faults(VisirError, "files of the log cannot be read", self.faults, hint="; ".join(self.hints))


def _no_rows(files: Sequence[Path]) -> VisirError:
    return VisirError(f"{files[0]}: no row in {'it' if len(files) == 1 else 'any file'}.", hint=_FETCH_AGAIN)


def _repair(
    file: Path, file_format: str, delimiter: str, scratch: Scratch, copy: str, rejected: IO[bytes]
) -> tuple[bool, bool]:
    """Write rejected lines to `rejected`; returns whether the file has a row, and whether there is a copy now."""
    has_rows, first, numbers = False, None, set()
    check = _json_lines if file_format == "json" else _csv_lines(file, delimiter)
    for line in check(iter_lines(file)):
        if isinstance(line, bytes):
            has_rows = has_rows or bool(line.strip())
            continue
        first = first or line
        numbers.add(line.number)
        text = line.text.decode("utf-8", "backslashreplace")
        row = {"file": file.name, "line": line.number, "text": text, "fault": line.fault}
        rejected.write(orjson.dumps(row) + b"\n")
    if file_format == "json" and first is not None and not has_rows:
        hint = _NOT_LINES.get(first.text.lstrip()[:1], "is it the right file? one JSON object a line is read")
        raise VisirError(f"{file}: no line is a JSON object; line {first.number} is {first.fault}", hint=hint)
    if not numbers and not (file_format == "json" and _has_byte_order_mark(file)):
        return has_rows, False
    with scratch.file(copy).open("wb") as target:
        for number, content in enumerate(iter_lines(file), start=1):
            target.write((b"" if number in numbers else content) + b"\n")
    return has_rows, True


def _has_byte_order_mark(file: Path) -> bool:
    """Whether a file begins with a byte order mark, which the copy lacks."""
    with open_binary(file) as stream:
        return stream.read(3) == b"\xef\xbb\xbf"


def _json_lines(lines: Iterable[bytes]) -> Iterator[bytes | RejectedLine]:
    for number, line in enumerate(lines, start=1):
        fault = _json_fault(line)
        yield line if fault is None else RejectedLine(number, line, fault)


class _RepeatedKeyError(ValueError):
    pass


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise _RepeatedKeyError(next(key for position, key in enumerate(keys) if key in keys[:position]))
    return dict(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeated_keys)


def _json_fault(line: bytes) -> str | None:
    """What is wrong with a line; None for an object, a blank line and `null`, which are read as they are."""
    if len(line) > MAX_LINE_BYTES["json"]:
        return f"longer than {MAX_LINE_BYTES['json']:,} bytes"
    try:
        text = line.decode()
        if not text.strip():
            return None
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as fault:
        return f"not UTF-8 (byte 0x{line[fault.start]:02x} at {fault.start + 1})"
    except UnicodeEncodeError:
        return "not JSON: half of a surrogate pair"
    except _RepeatedKeyError as fault:
        return f"the key {str(fault)!r} twice"
    except json.JSONDecodeError as fault:
        return f"not JSON: {fault.msg} at {fault.pos + 1}"
    except (ValueError, RecursionError) as fault:
        return f"not JSON: {fault}"
    return None if value is None or isinstance(value, dict) else "JSON, but no object"


def _csv_lines(file: Path, delimiter: str) -> Callable[[Iterable[bytes]], Iterator[bytes | RejectedLine]]:
    between = delimiter.encode()

    def lines(source: Iterable[bytes]) -> Iterator[bytes | RejectedLine]:
        waiting: list[bytes] = []  # read ahead for a row of several lines that was no row
        rest = iter(source)
        number = 0
        width: int | str | None = None

        def take() -> bytes | None:
            return waiting.pop(0) if waiting else next(rest, None)

        while (line := take()) is not None:
            number += 1
            if width is None and _head(file, line, delimiter):
                width = _count_fields(line, between)
            if len(line) > MAX_LINE_BYTES["csv"]:
                yield RejectedLine(number, line, f"longer than {MAX_LINE_BYTES['csv']:,} bytes")
            elif b'"' not in line or isinstance(_count_fields(line, between), int):
                yield line
            else:
                row = [line]
                fields = _count_fields(line, between)
                while fields == "open" and len(row) < MAX_LINES and (next_line := take()) is not None:
                    row.append(next_line)
                    fields = _count_fields(b"\n".join(row), between)
                if fields == width:
                    yield from row
                    number += len(row) - 1
                else:
                    waiting[:0] = row[1:]
                    yield RejectedLine(number, line, _QUOTE_FAULTS["open" if len(row) > 1 else str(fields)])

    return lines


def _count_fields(row: bytes, between: bytes = b",") -> int | str:
    """The number of fields; "open" where a quoted field does not end, "after" where text follows a closing quote."""
    position, fields = 0, 1
    while True:
        if row[position : position + 1] == b'"':
            position += 1
            while (position := row.find(b'"', position)) >= 0 and row[position + 1 : position + 2] == b'"':
                position += 2
            if position < 0:
                return "open"
            position += 1
            while row[position : position + 1] == b" ":
                position += 1
            if position < len(row) and row[position : position + 1] != between:
                return "after"
        else:
            comma = row.find(between, position)
            position = len(row) if comma < 0 else comma
        if position >= len(row):
            return fields
        position, fields = position + 1, fields + 1


def _head(file: Path, line: bytes | None, delimiter: str) -> list[str]:
    """The names in the first line of a file; an empty list for an empty file."""
    if not line:
        return []
    for mark, (what, hint) in _OTHER_FILES.items():
        if line.startswith(mark):
            raise VisirError(f"{file}: {what}", hint=hint)
    try:
        text = line.decode()
    except UnicodeDecodeError as fault:
        raise VisirError(f"{file}, line 1: not UTF-8 (byte 0x{line[fault.start]:02x})", hint=_FIX_HEAD) from fault
    fields = _count_fields(line, delimiter.encode())
    if isinstance(fields, str):
        raise VisirError(f"{file}, line 1: {_QUOTE_FAULTS[fields]}", hint=_FIX_HEAD)
    return [name.strip().strip('"') for name in text.partition("\r")[0].removeprefix("\ufeff").split(delimiter)]


def _delimiter_hint(head: list[str], expected: Collection[str], delimiter: str) -> str:
    """What to declare where the head holds the mapping's columns with something else between them."""
    for other in DELIMITERS:
        names = {name.strip().strip('"').casefold() for name in delimiter.join(head).split(other)}
        if other != delimiter and names & set(expected):
            return f"its columns are separated by {other!r}: write delimiter = {json.dumps(other)} into the mapping"
    return ""


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
    return [table_of(*sorted(part.glob("*.parquet"))) for part in folders]


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
            engine.execute(f"SELECT bit_xor(hash(row_of_file)) FROM {table_of(file)} row_of_file")
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
