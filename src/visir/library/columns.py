"""The fields of pictures in memory: of each field the sorted values, and the pictures that have each.

A comparison is then a range of values, found by bisection, instead of a walk through a table with a function of Python
at every row: `caption != x` among 40,000 captions takes 0.5 ms instead of 21 ms. Columns are read from the database
when the first condition needs them, and belong to one generation of a library.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.arrow import text_array

RowReader: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""(SQL, values) → rows: `visir.library.database.Database.rows`."""
Mask: TypeAlias = NDArray[np.bool_]
_ID = np.dtype("S32")
"""An id: 32 hexadecimal digits, which `visir.library.database_checks` looks at when a library is opened."""


class FieldColumn:
    """One field: its values, each once, ascending, and for each the rows of the items that have it."""

    def __init__(self, values: Sequence[Any] | pa.Array, places: NDArray[np.int64], items: int) -> None:
        if isinstance(values, pa.Array):
            coded = values.dictionary_encode()
            order = pc.sort_indices(coded.dictionary).to_numpy()
            self._values: Any = coded.dictionary.take(pa.array(order))
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            rank = ranks[coded.indices.to_numpy()]
        else:
            self._values = sorted(set(values))
            known = {value: rank for rank, value in enumerate(self._values)}
            rank = np.array([known[value] for value in values], np.int64)
        self._places = places[np.argsort(rank, kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=len(self._values)))])
        self._items = items

    def compared(self, op: str, values: Sequence[Any], *, prefix: bool = False) -> Mask:
        """Which items have a value that is `op` one of these ("=", "<", "<=", ">", ">=")."""
        # With `prefix` as far as the one that is compared with goes: "2024-05-31" is equal to "2024-05".
        mask = self._none()
        for value in values:
            length = len(value) if prefix else None
            low, high = (self._bisected(value, length, side) for side in (bisect.bisect_left, bisect.bisect_right))
            end = len(self._values)
            first, last = {"=": (low, high), "<": (0, low), "<=": (0, high), ">": (high, end), ">=": (low, end)}[op]
            mask[self._places[self._starts[first] : self._starts[last]]] = True
        return mask

    def counts(self, mask: Mask) -> list[tuple[Any, int]]:
        """(value, items of the mask that have it), by value."""
        if not len(self._values):
            return []
        counted = np.add.reduceat(mask[self._places].astype(np.int64), self._starts[:-1])
        values = self._values.to_pylist() if isinstance(self._values, pa.Array) else self._values
        return list(zip(values, counted.tolist(), strict=True))

    def containing(self, text: str) -> Mask:
        """(items,) whether an item has a text that contains this."""
        mask = self._none()
        for row in np.flatnonzero(pc.match_substring(self._values, text).to_numpy(zero_copy_only=False)):
            mask[self._places[self._starts[row] : self._starts[row + 1]]] = True
        return mask

    def _bisected(self, value: Any, length: int | None, side: Callable[..., int]) -> int:
        def key(row: int) -> Any:
            value_at_row = self._values[row]
            value_at_row = value_at_row.as_py() if isinstance(value_at_row, pa.Scalar) else value_at_row
            return value_at_row if length is None else value_at_row[:length]

        return side(range(len(self._values)), value, key=key)

    def _none(self) -> Mask:
        return np.zeros(self._items, np.bool_)


class FieldColumns:
    """The columns of one generation of a library, each read once; safe to use from several threads."""

    def __init__(self, rows: RowReader) -> None:
        self.rows = rows
        self._lock = threading.RLock()  # a column needs the ids
        self._columns: dict[Any, Any] = {}

    @property
    def ids(self) -> pa.Array:
        """The ids of all items, ascending: the places of every mask."""
        ids: pa.Array = self.once("ids", self._read_ids)
        return ids

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """(n,) the row of each of these among `ids`; −1 for what is no id of the library."""
        known: NDArray[np.bytes_] = self.once("sorted ids", lambda: np.array(self.ids.to_pylist(), _ID))
        wanted = np.array([id if len(id) == _ID.itemsize and id.isascii() else "" for id in ids], _ID)
        rows = np.searchsorted(known, wanted).astype(np.int64)
        rows[rows == len(known)] = -1
        return np.where(known[rows] == wanted, rows, -1) if len(known) else rows

    def column(self, sql: str, values: Sequence[Any] = (), read: Callable[[Any], Any] | None = None) -> FieldColumn:
        """The column of a query that gives (item, value); `read` makes of a value the text that is compared."""

        def make() -> FieldColumn:
            rows = self.rows(sql, values)
            places = pc.index_in(pa.array([item for item, _ in rows], pa.string()), self.ids)
            in_library = places.is_valid().to_numpy(zero_copy_only=False)
            column_values: Any = [value if read is None else read(value) for _, value in rows]
            if not all(in_library):
                column_values = [value for value, is_known in zip(column_values, in_library, strict=True) if is_known]
            texts = all(isinstance(value, str) for value in column_values)
            return FieldColumn(
                pa.array(column_values, pa.large_string()) if texts else column_values,
                places.drop_null().to_numpy().astype(np.int64),
                len(self.ids),
            )

        column: FieldColumn = self.once((sql, *values), make)
        return column

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, called once; other threads wait for it."""
        if key not in self._columns:
            with self._lock:
                if key not in self._columns:
                    self._columns[key] = make()
        return self._columns[key]

    def _read_ids(self) -> pa.Array:
        return text_array([item for (item,) in self.rows("SELECT id FROM items ORDER BY id", ())])
