"""Tables as people keep them: CSV, TSV, JSON lines and Parquet files as rows with the place of each."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from visir.collections.readers.sniffing import plain_name
from visir.errors import CollectionError
from visir.files import read_lines

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")

IMAGE_COLUMNS = ("file_name", "image", "filename", "file", "image_path", "filepath", "img", "image_name")
CAPTION_COLUMNS = ("text", "caption", "captions", "texts", "sentence", "sentences", "raw", "description", "title")
IMAGE_ID_COLUMNS = ("image_id", "imgid")
CAPTION_ID_COLUMNS = ("caption_id", "caption_ids", "sentid", "sentids")
SPLIT_COLUMNS = ("split", "set", "partition")


def is_table(path: Path) -> bool:
    """Whether the file's name ends like one of the tables read here."""
    return plain_name(path).lower().endswith(TABLES)


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) for every row: the place is "line 7" or "row 7", as errors name it."""
    name = plain_name(path).lower()
    if name.endswith((".csv", ".tsv")):
        yield from _delimited(path, "\t" if name.endswith(".tsv") else ",")
    elif name.endswith((".jsonl", ".ndjson")):
        yield from _json_lines(path)
    elif name.endswith(".parquet"):
        yield from _parquet(path)
    else:
        raise CollectionError(f"{path}: not a table.", hint=f"known: {', '.join(TABLES)}")


def header(path: Path) -> list[str]:
    """The columns of a table: those of its first row."""
    if plain_name(path).lower().endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except pa.ArrowInvalid as fault:
            raise CollectionError(f"{path}: not a readable Parquet file ({fault}).") from fault
    return list(next(read_rows(path), ("", {}))[1])


def one_column(path: Path, columns: list[str], asked: str | None, known: tuple[str, ...], what: str) -> str | None:
    """The column that holds `what`: the one asked for, or the only one with a usual name; None if there is none.

    Several with usual names are an error, because taking any of them would be a guess.
    """
    if asked is not None:
        if asked not in columns:
            raise CollectionError(f"{path}: no column {asked!r}.", hint=f"there are: {', '.join(columns)}")
        return asked
    there = [name for name in known if name in columns]
    if len(there) > 1:
        raise CollectionError(
            f"{path}: the {what} could be in {' or '.join(repr(name) for name in there)}.",
            hint=f"say which: {what.replace(' ', '_')}_column={there[0]}",
        )
    return there[0] if there else None


def _delimited(path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = read_lines(path)
    csv.field_size_limit(1 << 24)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        columns = next(reader, None)
        if columns is None:
            raise CollectionError(f"{path}: empty; expected a header line.")
        if len(set(columns)) != len(columns):
            raise CollectionError(f"{path}, line 1: a column is named twice: {', '.join(columns)}.")
        start = reader.line_num + 1
        for values in reader:
            place, start = f"line {start}", reader.line_num + 1
            if not values:
                continue
            if len(values) != len(columns):
                raise CollectionError(f"{path}, {place}: {len(values)} values for {len(columns)} columns.")
            yield place, dict(zip(columns, values, strict=True))
    except csv.Error as fault:
        raise CollectionError(f"{path}, line {reader.line_num}: not readable as CSV ({fault}).") from fault


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as fault:
            raise CollectionError(f"{path}, line {number}: not valid JSON: {fault}") from fault
        if not isinstance(row, dict):
            raise CollectionError(f"{path}, line {number}: expected an object {{…}}, found {line[:40]!r}.")
        yield f"line {number}", row


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(path)
    except pa.ArrowInvalid as fault:
        raise CollectionError(f"{path}: not a readable Parquet file ({fault}).") from fault
    number = 0
    for batch in opened.iter_batches():
        for row in pa.record_batch([_to_microseconds(one) for one in batch.columns], batch.schema.names).to_pylist():
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
