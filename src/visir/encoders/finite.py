"""NaN and infinite values in vectors: of which inputs they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.intake import Embedded
from visir.errors import EmbeddingError
from visir.records import TokenVectors
from visir.records.embeddings import NOT_FINITE


def not_finite(vectors: Embedded, values: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """The numbers of the inputs that have a NaN or infinite value."""
    flat = vectors.vectors if isinstance(vectors, TokenVectors) else vectors
    bad = np.flatnonzero(~np.isfinite(flat if values is None else values).all(axis=1))
    if len(bad) and isinstance(vectors, TokenVectors):
        bad = np.unique(np.searchsorted(vectors.offsets, bad, side="right") - 1)
    return bad


def finite(vectors: Embedded, names: Sequence[object], label: str) -> Embedded:
    """The vectors as they are."""
    bad = not_finite(vectors)
    if len(bad):
        fault = f"{label} returned NaN or infinite values for"
        raise EmbeddingError(
            f"{fault} {faulty_inputs(bad, names)}.", hint=NOT_FINITE, code="returned-nan-infinite-values"
        )
    return vectors


def faulty_inputs(bad: NDArray[np.int64], names: Sequence[object]) -> str:
    """How many inputs, and the first of them: "7 inputs: 'a', 'b', 'c', 'd', 'e', …"."""
    named = ", ".join(repr(names[int(number)]) for number in bad[:5]) + (", …" if len(bad) > 5 else "")
    return f"{len(bad)} {'input' if len(bad) == 1 else 'inputs'}: {named}"
