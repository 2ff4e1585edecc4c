"""Tables as people keep them: CSV, TSV, JSON lines and Parquet files as rows with the place of each.

Files are read line by line, so that memory holds what is used of them and never the file. A row that cannot be read is
an error, or goes to a callback that counts it and goes on.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from visir.collections.readers.delimited import UTF_8, TextLayout, is_text_table, text_layout
from visir.collections.readers.sniffing import plain_name
from visir.errors import CollectionError
from visir.files import iter_lines, open_binary

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_CELL = 1 << 26
"""A cell of a CSV file may have this many characters; longer ones are more likely a quote that was never closed."""
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
JSON_LINES = (".jsonl", ".ndjson", ".json")


def is_table(path: Path) -> bool:
    """Whether the file's name ends like one of the tables read here."""
    return plain_name(path).lower().endswith(TABLES)


@dataclass(frozen=True)
class RowFault:
    """What can be wrong with a row."""

    plural: str  # what such rows are called when they are counted
    message: str  # what an error says of one of them; {} is the place of the detail


UNEVEN = RowFault("rows with too few or too many values", "{}")
NOT_CSV = RowFault("rows that are not readable as CSV", "not readable as CSV ({})")
NOT_JSON = RowFault("lines that are not valid JSON", "not valid JSON: {}")
NO_OBJECT = RowFault("lines that are no JSON object", "expected an object {{…}}, found {}")

OnFault = Callable[[RowFault, str, str], None]
"""Takes a row that cannot be read: what is wrong with it, the place, and the detail."""


def faults_into(report: Callable[[str], None], file: Path) -> OnFault:
    """What writes each row of a file that cannot be read down as a fault."""
    return lambda fault, place, detail: report(f"{file.name}, {place}: {fault.message.format(detail)}")


def read_rows(
    path: Path,
    on_fault: OnFault | None = None,
    parse: Callable[[bytes], Any] = orjson.loads,
    columns: Sequence[str] | None = None,
    layout: TextLayout | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table, each with its place."""
    # Yields: (place, row): the place is "line 7" or "row 7", as errors name it.
    name = plain_name(path).lower()
    if is_text_table(path):
        yield from _delimited(path, on_fault, layout)
    elif name.endswith(JSON_LINES):
        yield from json_lines(path, on_fault, parse)
    elif name.endswith(".parquet"):
        yield from _parquet(path, columns)
    else:
        raise CollectionError(f"{path}: not a table.", hint=f"known: {', '.join(TABLES)}")


def read_csv_rows(path: Path, on_fault: OnFault | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a layout that is published as CSV, where every cell is text; as `read_rows`."""
    if not plain_name(path).lower().endswith((".csv", ".tsv")):
        raise CollectionError(
            f"{path}: not a CSV file, as this layout is.",
            hint="a table of declared columns may be another format",
            code="not-csv-file-layout",
        )
    yield from _delimited(path, on_fault, None)


def json_lines(
    path: Path, on_fault: OnFault | None = None, parse: Callable[[bytes], Any] = orjson.loads
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a file of JSON lines, as `read_rows`. A line may also hold a list of objects, each a row."""
    on_fault = on_fault or _raising(path)
    for number, line in enumerate(iter_lines(path), start=1):
        if not line or line.isspace():
            continue
        place = f"line {number}"
        try:
            value = parse(line)
        except ValueError as fault:
            on_fault(NOT_JSON, place, str(fault)[:100])
            continue
        if isinstance(value, dict):
            yield place, value
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            for count, entry in enumerate(value, start=1):
                yield f"{place}, object {count}", entry
        else:
            on_fault(NO_OBJECT, place, repr(line[:40].decode(errors="replace")))


def csv_columns(path: Path, on_fault: OnFault | None = None, layout: TextLayout | None = None) -> list[str]:
    """The names of the columns of a text table; none when it is empty."""
    layout = layout or _named_layout(path)
    _, first = next(_cells(path, on_fault or _raising(path), layout), (0, []))
    return [name.strip() for name in first] if layout.has_header else [str(n) for n in range(1, len(first) + 1)]


def _raising(path: Path) -> OnFault:
    def raise_fault(fault: RowFault, place: str, detail: str) -> None:
        raise CollectionError(f"{path}, {place}: {fault.message.format(detail)}.")

    return raise_fault


def _named_layout(path: Path) -> TextLayout:
    """How a text table is written whose first line has the names of its columns."""
    return text_layout(path, header="yes")


def _delimited(path: Path, on_fault: OnFault | None, layout: TextLayout | None) -> Iterator[tuple[str, dict[str, Any]]]:
    report = on_fault or _raising(path)
    layout = layout or _named_layout(path)
    columns = csv_columns(path, report, layout)
    cells = _cells(path, report, layout)
    if layout.has_header:
        next(cells, None)
    if not columns and on_fault is None:
        raise CollectionError(f"{path}: empty; expected a header line.")
    if len(set(columns)) != len(columns):
        raise CollectionError(
            f"{path}, line 1: a column is named twice: {', '.join(columns)}.", code="column-named-twice"
        )
    for start, values in cells:
        if len(values) != len(columns):
            report(UNEVEN, f"line {start}", f"{len(values)} values for {len(columns)} columns")
        else:
            yield f"line {start}", dict(zip(columns, values, strict=True))


def _cells(path: Path, on_fault: OnFault, layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is readable as CSV and not empty, the header first."""
    csv.field_size_limit(LONGEST_CELL)
    lines = _text_lines(path) if layout.encoding == UTF_8 else _decoded_lines(path, layout.encoding)
    # "a.jpg| 0| a dog": bars stand with a space behind them
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True, skipinitialspace=layout.delimiter == "|")
    while True:
        start = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as fault:
            place = f"line {start}" if reader.line_num <= start else f"lines {start} to {reader.line_num}"
            on_fault(NOT_CSV, place, str(fault))
            continue
        if values is None:
            return
        if values:
            yield start, values


def _text_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            yield f"{line.decode()}\n"
        except UnicodeDecodeError as fault:
            raise CollectionError(
                f"{path}, line {number}: not UTF-8 (byte 0x{line[fault.start]:02x}).",
                hint=f'say its encoding ("{path.name}?encoding=latin-1" opens a table of pictures and captions), or '
                f"convert it: iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}",
                code="table-not-utf-8",
            ) from fault


def _decoded_lines(path: Path, encoding: str) -> Iterator[str]:
    with io.TextIOWrapper(open_binary(path), encoding=encoding, newline="\n") as stream:
        number = 0
        try:
            for line in stream:
                number += 1
                yield line.removesuffix("\n").removesuffix("\r") + "\n"
        except UnicodeError as fault:
            raise CollectionError(f"{path}, after line {number}: not {encoding} ({fault}).") from fault


def _parquet(path: Path, names: Sequence[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from visir.parquet import reading_parquet

    number = 0
    with reading_parquet(path, CollectionError):
        for batch in pq.ParquetFile(path).iter_batches(columns=names):
            columns = [_to_microseconds(column) for column in batch.columns]
            for row in pa.record_batch(columns, batch.schema.names).to_pylist():
                number += 1
                yield f"row {number}", {name: None if _is_nan(value) else value for name, value in row.items()}


def _to_microseconds(column: pa.Array) -> pa.Array:
    """Moments and durations as Python has them; what is finer needs pandas, and is lost there as well."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column


def _is_nan(value: Any) -> bool:
    """Whether a cell is "not a number", with which some programs write that there is no value."""
    return not isinstance(value, list | dict) and bool(value != value)
