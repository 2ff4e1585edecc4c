"""What a late interaction looked at: the vector of a document that each vector of a query is scored by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records.arrays import as_array
from visir.retrieval.multi_vector import kernels


def alignment(query: Any, document: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best vector of a document for each vector of a query, and their dot product.

    The sum of the scores, rounded to float32, is the MaxSim score that a search gives the pair. The first of equally
    good vectors is named.

    Args:
        query: (t, d) the vectors of a query.
        document: (u, d) the vectors of a document.

    Returns:
        (t,) positions in the document, and (t,) scores.

    Raises:
        EmbeddingError: One of them is no matrix of finite numbers, or they differ in the length of their vectors.

    Example:
        >>> places, scores = alignment([[1, 0], [0, 1]], [[0, 2], [3, 1]])
        >>> places.tolist(), scores.tolist()
        ([1, 0], [3.0, 2.0])
    """
    left, right = _matrix(query, "query"), _matrix(document, "document")
    if left.shape[1] != right.shape[1]:
        raise EmbeddingError(
            f"vectors of {left.shape[1]} numbers in the query, of {right.shape[1]} in the document.",
            hint="encode both with one model",
        )
    padded = -(-len(left) // 4) * 4
    places, scores = np.zeros(padded, np.int64), np.zeros(padded, np.float64)
    kernels.align(left, right, places, scores)
    return places[: len(left)], scores[: len(left)]


def _matrix(vectors: Any, name: str) -> NDArray[np.float32]:
    try:
        matrix = as_array(vectors)
        converted = np.ascontiguousarray(matrix, np.float32)
    except (TypeError, ValueError, RuntimeError) as fault:
        raise EmbeddingError(f"the {name} is no matrix of numbers: {fault}.") from fault
    if converted.ndim != 2 or 0 in converted.shape or not np.isfinite(converted).all():
        raise EmbeddingError(f"the {name} is no (t, d) matrix of finite numbers: {matrix.dtype} {matrix.shape}.")
    return converted
