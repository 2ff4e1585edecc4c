"""Parquet files that visir wrote, read as what they must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """One file, or these columns of it in their order. pyarrow's own `read_table` imports pandas, which takes a while.

    Args:
        path: Of the file.
        columns: Their names; None for all.
    """
    with pq.ParquetFile(path) as file:
        table = file.read(columns=columns)
    return table if columns is None else table.select(columns)


def read_columns(path: Path, columns: Mapping[str, pa.DataType], error: type[VisirError], hint: str) -> pa.Table:
    """These columns of a file, without nulls, and its metadata.

    Args:
        path: Of the file.
        columns: From the name of each to its type.
        error: What is raised for a file that is missing, damaged, or has not these columns.
        hint: The next action, for that error.
    """
    if not path.is_file():
        raise error(f"{path}: missing.", hint=hint)
    try:
        table = read_table(path, list(columns))
        table = table.cast(pa.schema(columns.items(), metadata=table.schema.metadata))
        table.validate(full=True)  # text that is no UTF-8, offsets that lead nowhere
    except Exception as fault:  # the reader raises nearly anything over a damaged byte
        raise error(f"{path}: damaged ({fault}).", hint=hint) from fault
    nulls = [name for name in columns if table[name].null_count]
    if nulls:
        raise error(f"{path}: damaged (no value in {', '.join(nulls)}).", hint=hint)
    return table
