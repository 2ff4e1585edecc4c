"""Parquet files, read as what they must be, in ways that let a process end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.storage import check_written

_MANY = 1 << 16
"""Rows that are worth threads: to begin some, and to wait for them, takes longer than to read fewer."""

# Arrow arrays made from their buffers.


def integer_array(values: NDArray[np.integer]) -> pa.Array:
    """(n,) an array of the same type of integers, on the same memory where Arrow can read it."""
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [None, pa.py_buffer(plain)])


def text_array(values: Sequence[str]) -> pa.StringArray:
    """(n,) an array of strings, without nulls."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{len(encoded):,} texts of {ends[-1]:,} bytes together: an array holds 2 GiB of them")
    offsets, content = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(encoded), offsets, content)


def numpy_integers(array: pa.Array) -> NDArray[Any]:
    """(n,) integers without nulls as NumPy's, on the same memory, read-only."""
    values = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype(), len(array) + array.offset)
    return values[array.offset :]


class ParquetFileError(VisirError, pa.ArrowInvalid):  # type: ignore[misc]
    """A Parquet file is damaged, or none."""


def read_table(source: str | Path | IO[bytes], columns: Sequence[str] | None = None) -> pa.Table:
    """One file, or these columns of it in their order. One that visir wrote is held against its manifest."""
    # pyarrow's own `read_table` imports pandas, which takes a while.
    if not isinstance(source, str | Path):
        table = open_stream(source).read(columns=columns, use_threads=False)
    elif Path(source).is_dir():
        table = pq.read_table(
            Path(source).absolute(), columns=None if columns is None else list(columns), partitioning=None
        )
    else:
        check_written(source)
        table = _read_file(Path(source), columns)
    return table if columns is None else table.select(columns)


def _read_file(path: Path, columns: Sequence[str] | None) -> pa.Table:
    with reading_parquet(path), pq.ParquetFile(path.absolute()) as file:  # a relative "photos:/x" would be an address
        table = file.read(columns=columns, use_threads=file.metadata.num_rows > _MANY)
        table.validate(full=True)  # text that is no UTF-8, offsets that lead nowhere
        return table


@contextmanager
def reading_parquet(
    path: str | Path, error: type[VisirError] = ParquetFileError, *, title: str = "Parquet"
) -> Iterator[None]:
    """Around code that reads a Parquet (or Arrow) file: whatever its readers raise over a damaged byte names the
    file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as fault:
        if isinstance(fault, VisirError) or (isinstance(fault, OSError) and fault.errno is not None):
            raise
        reason = f"not a readable {title} file ({fault})"
        raise error(
            f"{path}: {reason}.", hint="is the copy, or the download, complete?", code="not-readable-file"
        ) from fault


def open_stream(stream: IO[bytes], *, checked: bool = False) -> pq.ParquetFile:
    """A Parquet file in a file object of Python; read it with `use_threads=False`."""
    # Arrow's threads have to enter Python to read such a stream. One that does so while the process ends, which is soon
    # after a short read, aborts the process (status 134). A file of a path has no such fault, and is read with threads.
    return pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=checked)


def read_columns(path: Path, columns: Mapping[str, pa.DataType], error: type[VisirError], hint: str) -> pa.Table:
    """These columns of a file, without nulls, and its metadata."""
    if not path.is_file():
        raise error(f"{path}: missing.", hint=hint, code="missing")
    try:
        table = read_table(path, list(columns))
        table = table.cast(pa.schema(columns.items(), metadata=table.schema.metadata))
        table.validate(full=True)  # text that is no UTF-8, offsets that lead nowhere
    except Exception as fault:  # the reader raises nearly anything over a damaged byte
        raise error(f"{path}: damaged ({fault}).", hint=hint, code="damaged") from fault
    nulls = [name for name in columns if table[name].null_count]
    if nulls:
        raise error(f"{path}: damaged (no value in {', '.join(nulls)}).", hint=hint, code="damaged-no-value")
    return table
