"""What the compiled loops of MaxSim do, in NumPy and into the same arrays: no search waits for the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import visir.retrieval.few as dense
from visir.records.columns import rows_of_spans

Array = NDArray[Any]


def reduce_product(
    product: Array, documents: Array, queries: Array, room: Array, out: Array, top: int, left: int
) -> None:
    """As `kernels.reduce_product`."""
    greatest = np.maximum.reduceat(product, documents[:-1], axis=0).astype(np.float64)
    scores = dense.rounded(np.add.reduceat(greatest, queries[:-1], axis=1)).T
    out[top : top + len(scores), left : left + scores.shape[1]] = scores


def score_pairs(
    queries: Array, query_offsets: Array, query_of: Array, documents: Array, document_offsets: Array,
    document_of: Array, out: Array,
) -> None:  # fmt: skip
    """As `kernels.score_pairs`."""
    for query in np.unique(query_of):
        own = np.flatnonzero(query_of == query)
        rows, offsets = rows_of_spans(document_offsets, document_of[own])
        products = dense.products(queries[query_offsets[query] : query_offsets[query + 1]], documents[rows])
        greatest = np.maximum.reduceat(products, offsets[:-1], axis=1)
        out[own] = dense.rounded(np.add.accumulate(greatest, axis=0)[-1])  # each sum in the order of the vectors


def align(query: Array, document: Array, places: Array, scores: Array) -> None:
    """As `kernels.align`."""
    products = dense.products(query, document)
    places[: len(query)] = products.argmax(axis=1)
    scores[: len(query)] = products.max(axis=1)


def mark_near(scores: Array, slacks: Array, offsets: Array, known: Array, near: Array) -> None:
    """As `kernels.mark_near`."""
    near[:] = False
    for q, (row, slack) in enumerate(zip(scores, slacks, strict=True)):
        for score in known[offsets[q] : offsets[q + 1]]:
            near[q] |= (row >= score - slack) & (row <= score + slack)


def count_better(
    scores: Array, near: Array, first: int, offsets: Array, documents: Array, known: Array, better: Array, ties: int
) -> None:
    """As `kernels.count_better`: no score that is not exact is equal to that of a positive."""
    dense.count_better(
        scores, np.float32(0), lambda row, column: scores[row, column], np.arange(len(scores)), first, offsets,
        documents, known, better, ties,
    )  # fmt: skip


def choose(
    products: Array, nearest: Array, offsets: Array, first: int, last: int, starts: Array, rows: Array,
    row_offsets: Array, codes: Array, dead: Array, selected: Array,
) -> None:  # fmt: skip
    """As `kernels.choose`."""
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        centroids = nearest[a:b].ravel()
        listed = rows[rows_of_spans(starts, centroids[np.sort(np.unique(centroids, return_index=True)[1])])[0]]
        listed = listed[np.sort(np.unique(listed, return_index=True)[1])]  # each once, in the order of the lists
        listed = listed[~dead[listed]]
        if len(listed) > selected.shape[1]:
            places, spans = rows_of_spans(row_offsets, listed)
            best = np.maximum.reduceat(products[codes[places], a:b], spans[:-1], axis=0)
            scores = np.add.accumulate(best, axis=1)[:, -1]
            listed = listed[np.argsort(-scores, kind="stable")[: selected.shape[1]]]
        selected[q, : len(listed)] = listed
