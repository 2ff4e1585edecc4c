"""Active terms: the number of terms of a vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings


def active_terms(embeddings: SparseEmbeddings) -> NDArray[np.int64]:
    """Count the terms of each row that have a weight; their mean is the L0 norm that papers report.

    Args:
        embeddings: n rows over V terms.

    Returns:
        (n,) counts, from 0 to V.
    """
    lengths: NDArray[np.int64] = embeddings.offsets[1:] - embeddings.offsets[:-1]
    return lengths
