"""Pictures in the cells of Arrow and Parquet files, as the `datasets` library and the Hugging Face hub keep them."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import CollectionError, ImageError
from visir.parquet import reading_parquet


class ArrowArchive:
    """An Arrow file with images as values: member "column#row", the value being bytes or a struct {bytes, path}."""

    # The form in which the `datasets` library keeps image columns. The file is memory-mapped.

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def table(self) -> Any:
        """The memory-mapped table."""
        source = pa.memory_map(str(self.path))
        try:
            return pa.ipc.open_stream(source).read_all()
        except (pa.ArrowException, OSError):
            source.seek(0)
        with reading_parquet(self.path, CollectionError, title="Arrow"):
            table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
            return table

    def names(self) -> Iterable[str]:
        """The members of every image column."""
        return _cell_names(self.table.schema, self.table.num_rows)

    def read(self, name: str) -> bytes:
        """The bytes of one cell."""
        column, row = _cell(name, self.path)
        if column not in self.table.column_names or row >= self.table.num_rows:
            raise ImageError(f"{self.path}: no member {name!r}.", code="no-member")
        return _cell_bytes(self.table[column][row].as_py(), self.path, name)


class ParquetArchive:
    """A Parquet file with images as values, as on the Hugging Face hub: member "column#row", as in `ArrowArchive`."""

    # Row groups are decompressed whole; the last few are kept, so that reading in order costs nothing extra.

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading_parquet(path, CollectionError):
            self._file = pq.ParquetFile(path)
        self._starts = [0]
        for group in range(self._file.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)
        self._lock = threading.Lock()
        self._group = lru_cache(maxsize=4)(self._read_group)

    def names(self) -> Iterable[str]:
        """The members of every image column."""
        return _cell_names(self._file.schema_arrow, self._starts[-1])

    def read(self, name: str) -> bytes:
        """The bytes of one cell."""
        column, row = _cell(name, self.path)
        if column not in self._file.schema_arrow.names or row >= self._starts[-1]:
            raise ImageError(f"{self.path}: no member {name!r}.", code="no-member")
        group = bisect.bisect_right(self._starts, row) - 1
        with self._lock:
            values = self._group(group, column)
        return _cell_bytes(values[row - self._starts[group]].as_py(), self.path, name)

    def _read_group(self, group: int, column: str) -> Any:
        with reading_parquet(self.path, CollectionError):
            return self._file.read_row_group(group, columns=[column])[column]


@dataclass(frozen=True)
class PictureCells:
    """Pictures in the cells of a Parquet file."""

    file: Path  # the file
    column: str  # the column of pictures
    others: list[str]  # the other columns
    present: list[bool]  # (n,) whether each row has a picture

    @classmethod
    def of(cls, file: Path, name: str | None) -> PictureCells | None:
        """Those of a file; None for a file that has none."""
        if not file.name.lower().endswith(".parquet"):
            return None
        with reading_parquet(file, CollectionError):
            parquet = pq.ParquetFile(file)
        columns = image_columns(parquet.schema_arrow)
        if name is not None:
            columns = [name] if name in columns else []
        if not columns:
            return None
        if len(columns) > 1:
            raise CollectionError(f"{file}: several columns of images: {', '.join(columns)}.", hint="say which one")
        others = [column for column in parquet.schema_arrow.names if column not in columns]
        with reading_parquet(file, CollectionError):
            return cls(file, columns[0], others, _present(parquet, columns[0]))

    def member(self, row: int) -> str | None:
        """What the picture in a row is called inside the file; None where there is none."""
        return f"{self.column}#{row}" if self.present[row] else None


def _present(parquet: pq.ParquetFile, column: str) -> list[bool]:
    """(n,) whether each row has a picture. They are read for it, unless the file says that every row has one."""
    groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
    leaves = [group.column(leaf) for group in groups for leaf in range(group.num_columns)]
    bytes_of = [leaf for leaf in leaves if leaf.path_in_schema in (column, f"{column}.bytes")]
    if all(leaf.statistics is not None and leaf.statistics.null_count == 0 for leaf in bytes_of):
        return [True] * parquet.metadata.num_rows
    batches = parquet.iter_batches(256, columns=[column])
    return [valid for batch in batches for valid in batch.column(0).is_valid().to_pylist()]


def image_columns(schema: Any) -> list[str]:
    """The columns of an Arrow schema that can hold image bytes: binary, or a struct with a field `bytes`."""

    def holds(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return bool(kind.get_field_index("bytes") >= 0)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    return [part.name for part in schema if holds(part.type)]


def pictures_in_cells(path: Path) -> list[str]:
    """The columns of pictures of a Parquet file; none for any other file."""
    if not path.name.lower().endswith(".parquet"):
        return []
    try:
        return image_columns(pq.read_schema(path))
    except (pa.ArrowException, OSError):
        return []


def _cell_names(schema: Any, rows: int) -> Iterable[str]:
    return (f"{column}#{row}" for column in image_columns(schema) for row in range(rows))


def _cell(name: str, path: Path) -> tuple[str, int]:
    column, _, row = name.rpartition("#")
    if not column or not row.isdecimal():
        raise ImageError(f"{path}: no member {name!r}; members are called column#row.")
    return column, int(row)


def _cell_bytes(value: Any, path: Path, name: str) -> bytes:
    if isinstance(value, dict):
        if value.get("bytes") is None and value.get("path"):
            beside = path.parent / value["path"]
            if not beside.is_file():
                raise ImageError(f"{path}: {name!r} points to {value['path']!r}, which is not there.")
            return bytes(beside.read_bytes())
        value = value.get("bytes")
    if value is None:
        raise ImageError(f"{path}: {name!r} is null.", code="is-null")
    return bytes(value)
