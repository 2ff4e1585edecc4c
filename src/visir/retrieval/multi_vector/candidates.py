"""The compiled kernel that chooses candidates by their centroids."""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import njit


@njit()
def choose(
    products: Any,
    nearest: Any,
    offsets: Any,
    first: int,
    last: int,
    starts: Any,
    rows: Any,
    row_offsets: Any,
    codes: Any,
    dead: Any,
    selected: Any,
) -> None:
    """Choose the rows that queries `first:last` score exactly."""
    # products: (centroids, query vectors) their dot products.
    # rows: (m,) the rows in the lists.
    # codes: (m,) the centroids of each row.
    # dead: (rows,) which are deleted.
    # selected: (queries, wanted) filled in with rows; what is left over stays -1.
    seen = np.full(dead.shape[0], -1, np.int32)
    listed = np.full(starts.shape[0] - 1, -1, np.int32)
    listed_rows = np.empty(dead.shape[0], np.int32)
    scores = np.empty(dead.shape[0], np.float32)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        count = 0
        for v in range(a, b):
            for p in range(nearest.shape[1]):
                centroid = nearest[v, p]
                if listed[centroid] == q:
                    continue
                listed[centroid] = q
                for m in range(starts[centroid], starts[centroid + 1]):
                    row = rows[m]
                    if seen[row] != q and not dead[row]:
                        seen[row] = q
                        listed_rows[count] = row
                        count += 1
        best = np.empty(b - a, np.float32)
        for n in range(count):
            row = listed_rows[n]
            best[:] = -np.inf
            for m in range(row_offsets[row], row_offsets[row + 1]):
                product = products[codes[m], a:b]
                for i in range(b - a):
                    best[i] = product[i] if product[i] > best[i] else best[i]
            total = np.float32(0)
            for i in range(b - a):
                total += best[i]
            scores[n] = total
        if count <= selected.shape[1]:
            selected[q, :count] = listed_rows[:count]
        else:
            order = np.argsort(-scores[:count], kind="mergesort")  # stable
            selected[q, :] = listed_rows[order[: selected.shape[1]]]
