"""Columns at the door: whatever sequence of ids comes in becomes one contiguous array of strings. And ids looked up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError


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


def refuse_repeats(ids: pa.StringArray, where: str) -> None:
    """Raise `EmbeddingError` naming ids that stand more than once."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    twice = [entry["values"] for entry in pc.value_counts(ids).to_pylist() if entry["counts"] > 1][:5]
    raise EmbeddingError(f"{where}: ids repeat: {', '.join(map(repr, twice))}.", hint="every id names one vector")


def rows_of(wanted: object, ids: pa.StringArray, vectors: str) -> NDArray[np.int64]:
    """(n,) where each wanted id stands in `ids`; `EmbeddingError` naming those that do not ("no `vectors` for …")."""
    asked = strings(wanted)
    found = pc.index_in(asked, ids)
    if found.null_count:
        missing = asked.filter(pc.is_null(found)).to_pylist()
        raise EmbeddingError(
            f"no {vectors} for {len(missing)} ids: "
            + ", ".join(map(repr, missing[:5]))
            + (", …" if len(missing) > 5 else ""),
            hint="encode the whole split, or restrict the gallery to what was encoded",
        )
    rows: NDArray[np.int64] = found.to_numpy().astype(np.int64)
    return rows
