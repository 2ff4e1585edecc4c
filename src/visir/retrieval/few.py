"""Exact search over few vectors in NumPy, where the import of numba would take longer (`visir.jit.pays`).

Scores are what `kernels` computes: dot products in double precision, rounded to float32. The order of the sums is
another, which changes what is left after rounding about once in 1e8 scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 8192


def lengths(vectors: NDArray[np.float32], out: NDArray[np.float64]) -> None:
    """(n,) float64 Euclidean lengths of float32 rows."""
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        out[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", block, block))


def divide_rows(vectors: NDArray[np.float32], by: NDArray[np.float64]) -> None:
    """Divide each float32 row by its own float64 length, in place; the quotient is rounded once."""
    with np.errstate(invalid="ignore", divide="ignore"):  # zero vectors are refused afterwards, by name
        for start in range(0, len(vectors), _BLOCK):
            block = slice(start, start + _BLOCK)
            vectors[block] = vectors[block].astype(np.float64) / by[block, None]


def best(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The (q, depth) rows of the best vectors for each query, and their scores; of equal ones the first row is
    first."""
    # queries: (q, d).
    # vectors: (n, d).
    scores = np.empty((len(queries), len(vectors)), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        for row, query in enumerate(queries.astype(np.float64)):
            # Not a matrix product: in that, the last bits of a score depend on where its vector stands.
            scores[row, start : start + _BLOCK] = np.einsum("ij,j->i", block, query)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int32), np.take_along_axis(scores, order, axis=1)
