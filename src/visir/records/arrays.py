"""Arrays of other libraries as NumPy arrays; rows of a ragged array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_array(values: Any) -> NDArray[Any]:
    """Return numbers as a NumPy array, whatever library holds them."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # torch, without importing it
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # a type that NumPy lacks
            values = values.float()
        return np.asarray(values)
    if hasattr(values, "toarray"):
        return np.asarray(values.toarray())
    rows = values.tolist() if str(getattr(values, "dtype", "")) == "object" else values
    if isinstance(rows, list | tuple) and any(hasattr(row, "shape") for row in rows):  # an array for each item
        rows = [as_array(row) for row in rows]
        if len({row.shape for row in rows}) > 1:
            raise ValueError(f"rows of unequal shapes: {rows[0].shape} and others")
        stacked = np.stack(rows)
        return stacked[:, 0] if stacked.ndim == 3 and stacked.shape[1] == 1 else stacked  # rows of a sparse matrix
    return np.asarray(rows)


def rows_of_spans(offsets: NDArray[np.int64], spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some spans of a ragged array, one span after the other, and the offsets of these."""
    # spans: (k,) which spans.
    # Returns: (m,) rows, and the (k + 1,) offsets of the spans among them.
    lengths = (offsets[1:] - offsets[:-1])[spans]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(offsets[:-1][spans] - starts[:-1], lengths) + np.arange(starts[-1]), starts
