"""A new table in a place of the user's: CSV, TSV, JSON lines or Parquet, by the ending of its name."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pyarrow as pa
from pyarrow import parquet

from visir.display import csv_of
from visir.errors import ConfigurationError
from visir.storage import check_new_file, new_file

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def write_new_table(path: str | Path, table: pa.Table, *, for_people: bool) -> Path:
    """Write a table as a new file, in one step. Nothing is replaced."""
    target = Path(path)
    check_new_table(target)
    ending = target.suffix.lower()
    buffer = io.BytesIO()
    if ending == ".parquet":
        parquet.write_table(table, buffer)
    elif ending == ".jsonl":
        buffer.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist())
    else:
        buffer.write(csv_of(table, "\t" if ending == ".tsv" else ",", for_people=for_people))
    with new_file(target) as new:
        new.write_bytes(buffer.getvalue())
    return target


def check_new_table(path: str | Path) -> None:
    """Raise where `write_new_table` could not write: before the work rather than after it."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ConfigurationError(
            f"{path}: not the name of a table.", hint=f"it ends in {', '.join(ENDINGS)}", code="not-name-table"
        )
    check_new_file(path)
