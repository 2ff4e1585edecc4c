"""A `datasets.Dataset` as a table of a task: texts are read as they are, pictures in place."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.cells import ArrowArchive, image_columns
from visir.collections.readers.huggingface import saved_dataset, saved_files
from visir.collections.readers.rows import OnFault
from visir.collections.readers.task_reader import IMAGES, TaskTable
from visir.errors import CollectionError

_BATCH = 1_000


def is_dataset(value: object) -> bool:
    """Whether an object is a `datasets.Dataset`. It imports nothing."""
    return hasattr(value, "save_to_disk") and hasattr(value, "column_names") and not isinstance(value, dict)


def is_dataset_dict(value: object) -> bool:
    """Whether an object is a `datasets.DatasetDict`: data sets by split."""
    return isinstance(value, dict) and hasattr(value, "save_to_disk")


def dataset_table(dataset: Any, name: str, image: str | None = None, split: str = "") -> TaskTable:
    """A data set as a table of a task."""
    # A data set with pictures is written once into the cache, under its own fingerprint, and its pictures are read in
    # place from there.
    columns = image_columns(dataset.features.arrow_schema)
    texts = [column for column in dataset.column_names if column not in columns]

    def rows(report: OnFault) -> Iterator[tuple[str, dict[str, Any]]]:
        plain = dataset.select_columns(texts).with_format("arrow")
        number = itertools.count(1)
        for start in range(0, len(plain), _BATCH):
            for row in plain[start : start + _BATCH].to_pylist():
                yield f"row {next(number)}", row

    if not columns:
        return TaskTable(name, rows, split)
    usual = [column for column in columns if column.lower() in IMAGES]
    column = image or (columns[0] if len(columns) == 1 else usual[0] if len(usual) == 1 else None)
    if column is None or column not in columns:
        raise CollectionError(
            f"{name}: which column has the pictures: {', '.join(columns)}?",
            hint='say it: query_image_column="COLUMN", or document_image_column="COLUMN"',
        )
    return TaskTable(name, rows, split, _Cells(dataset.select_columns([column]), column))


class _Cells:
    """Where the pictures of a data set are, row by row."""

    def __init__(self, dataset: Any, column: str) -> None:
        self._column = column
        files = saved_files(saved_dataset(dataset))
        tables = [ArrowArchive(file).table for file in files]
        self._files = [str(file.absolute()) for file in files]
        self._starts = [0, *itertools.accumulate(table.num_rows for table in tables)]
        self._present = [_present(table[column]) for table in tables]

    def __call__(self, row: int) -> tuple[str, str] | None:
        file = bisect.bisect_right(self._starts, row) - 1
        inside = row - self._starts[file]
        return (f"{self._column}#{inside}", self._files[file]) if self._present[file][inside] else None


def _present(column: Any) -> list[bool]:
    valid = pc.is_valid(column)
    if pa.types.is_struct(column.type):
        held = [pc.is_valid(pc.struct_field(column, name)) for name in ("bytes", "path")
                if column.type.get_field_index(name) >= 0]  # fmt: skip
        valid = pc.and_(valid, pc.or_(held[0], held[1]) if len(held) == 2 else held[0])
    present: list[bool] = valid.to_pylist()
    return present
