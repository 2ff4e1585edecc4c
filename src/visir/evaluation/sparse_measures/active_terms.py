"""Active terms: how many words a vector has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings


def active_terms(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """(n,) how many terms of each row have a weight, from 0 to V; their mean is the L0 norm that papers report."""
    lengths: NDArray[np.int64] = embeddings.offsets[1:] - embeddings.offsets[:-1]
    return lengths
