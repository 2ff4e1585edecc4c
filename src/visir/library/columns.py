"""What pictures are asked for, in memory: of each field the sorted values, and the pictures that have each.

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

RowReader: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""(SQL, values) → rows: `visir.library.database.Database.rows`."""
Mask: TypeAlias = NDArray[np.bool_]


class FieldColumn:
    """One field: `values` without repetitions, ascending, and behind each the places of the items that have it."""

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
            known = {value: at for at, value in enumerate(self._values)}
            rank = np.array([known[value] for value in values], np.int64)
        self._places = places[np.argsort(rank, kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=len(self._values)))])
        self._items = items

    def compared(self, op: str, values: Sequence[Any], *, prefix: bool = False) -> Mask:
        """Which items have a value that is `op` one of these ("=", "<", "<=", ">", ">=").

        With `prefix` as far as the one that is compared with goes: "2024-05-31" is equal to "2024-05".
        """
        mask = self._none()
        for value in values:
            length = len(value) if prefix else None
            low, high = (self._bisected(value, length, side) for side in (bisect.bisect_left, bisect.bisect_right))
            end = len(self._values)
            first, last = {"=": (low, high), "<": (0, low), "<=": (0, high), ">": (high, end), ">=": (low, end)}[op]
            mask[self._places[self._starts[first] : self._starts[last]]] = True
        return mask

    def containing(self, text: str) -> Mask:
        """Which items have a text with this in it."""
        mask = self._none()
        for at in np.flatnonzero(pc.match_substring(self._values, text).to_numpy(zero_copy_only=False)):
            mask[self._places[self._starts[at] : self._starts[at + 1]]] = True
        return mask

    def _bisected(self, value: Any, length: int | None, side: Callable[..., int]) -> int:
        def key(at: int) -> Any:
            held = self._values[at]
            held = held.as_py() if isinstance(held, pa.Scalar) else held
            return held if length is None else held[:length]

        return side(range(len(self._values)), value, key=key)

    def _none(self) -> Mask:
        return np.zeros(self._items, np.bool_)


class FieldColumns:
    """The columns of one generation of a library, each read once; safe to use from several threads."""

    def __init__(self, rows: RowReader) -> None:
        self.rows = rows
        self._lock = threading.RLock()  # a column needs the ids
        self._made: dict[Any, Any] = {}

    @property
    def ids(self) -> pa.Array:
        """The ids of all items, ascending: the places of every mask."""
        ids: pa.Array = self.once("ids", self._read_ids)
        return ids

    def column(self, sql: str, values: Sequence[Any] = (), read: Callable[[Any], Any] | None = None) -> FieldColumn:
        """The column of a query that gives (item, value); `read` makes of a value the text that is compared."""

        def make() -> FieldColumn:
            found = self.rows(sql, values)
            places = pc.index_in(pa.array([item for item, _ in found], pa.string()), self.ids)
            here = places.is_valid().to_numpy(zero_copy_only=False)
            held: Any = [value if read is None else read(value) for _, value in found]
            if not all(here):
                held = [value for value, there in zip(held, here, strict=True) if there]
            texts = all(isinstance(value, str) for value in held)
            return FieldColumn(
                pa.array(held, pa.large_string()) if texts else held,
                places.drop_null().to_numpy().astype(np.int64),
                len(self.ids),
            )

        column: FieldColumn = self.once((sql, *values), make)
        return column

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made by the first who asks; others wait for it."""
        if key not in self._made:
            with self._lock:
                if key not in self._made:
                    self._made[key] = make()
        return self._made[key]

    def _read_ids(self) -> pa.Array:
        return pa.array([one for (one,) in self.rows("SELECT id FROM items ORDER BY id", ())], pa.string())
