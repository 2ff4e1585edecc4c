"""Columns at the door: whatever sequence of ids comes in becomes one contiguous array of strings. And ids looked up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import CollectionError, EmbeddingError


def strings(values: object) -> pa.StringArray:
    """One contiguous `pa.StringArray` from a list, a NumPy array, a chunked array or a dictionary array."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # pyarrow keeps a chunked array when there is no chunk at all
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if isinstance(values, pa.Array):
        return values.cast(pa.string())
    return pa.array(list(values), pa.string())  # type: ignore[call-overload]


def text_column(values: Sequence[str | None], where: str) -> pa.StringArray:
    """A column of text. Raises `CollectionError` for a number, and for text that no UTF-8 file can hold."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as fault:  # half of a surrogate pair, from a JSON escape
        around = fault.object[max(0, fault.start - 30) : fault.start + 30]
        raise CollectionError(
            f"{where}: not all are valid text: half of a surrogate pair in {around!r}.",
            hint="mend it in the source",
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
        raise CollectionError(f"{where}: not all are valid text ({fault}).", hint="mend it in the source") from None


def conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The columns of a schema, of its types and in its order. Raises `CollectionError` for missing ones."""
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise CollectionError(f"{where}: columns {missing} are missing; there are {table.column_names}.")
    return table.select(schema.names).cast(schema).combine_chunks()


def check_unique(ids: pa.StringArray, where: str) -> None:
    """Raise `EmbeddingError` naming ids that stand more than once."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    twice = [entry["values"] for entry in pc.value_counts(ids).to_pylist() if entry["counts"] > 1][:5]
    raise EmbeddingError(f"{where}: ids repeat: {', '.join(map(repr, twice))}.", hint="every id names one vector")


def rows_of(wanted: object, ids: pa.StringArray, vectors: str) -> NDArray[np.int64]:
    """(n,) where each wanted id stands in `ids`; `EmbeddingError` naming those that do not ("no `vectors` for …")."""
    requested = strings(wanted)
    positions = pc.index_in(requested, ids)
    if positions.null_count:
        missing = requested.filter(pc.is_null(positions)).to_pylist()
        raise EmbeddingError(
            f"no {vectors} for {len(missing)} ids: "
            + ", ".join(map(repr, missing[:5]))
            + (", …" if len(missing) > 5 else ""),
            hint="encode the whole split, or restrict the gallery to what was encoded",
        )
    rows: NDArray[np.int64] = positions.to_numpy().astype(np.int64)
    return rows
