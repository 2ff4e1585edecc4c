"""Columns at the door: whatever sequence of ids comes in becomes one contiguous array of strings."""

from __future__ import annotations

import pyarrow as pa


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
