"""Weighted sums of the vectors of texts and images, of any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.records import Embeddings, Modality, MultiVectorEmbeddings, SparseEmbeddings, TokenVectors, Vectors

_SHORTEST = 1e-12
Rows = Mapping[Modality, NDArray[np.int64]]
Weights = Mapping[Modality, NDArray[np.float32]]


def weighted_sum(
    ids: pa.StringArray, vectors: Mapping[Modality, Vectors], rows: Rows, shares: Mapping[Modality, float]
) -> Vectors:
    """The weighted sum of unit vectors; an item that has one of the two alone has its unit vector.

    Args:
        ids: (n,) of the items.
        vectors: By modality, all of one form.
        rows: (n,) the row of each item in `vectors`, −1 where it has none.
        shares: The weight of each modality.
    """
    weights = _weights(rows, shares)
    first = next(iter(vectors.values()))
    if isinstance(first, SparseEmbeddings):
        matrix = sum(_sparse(vectors[modality], own, weights[modality]) for modality, own in rows.items())
        return SparseEmbeddings.from_scipy(first.modality, ids, matrix, first.vocabulary, first.encoder)
    if isinstance(first, MultiVectorEmbeddings):
        several = _several(vectors, rows, weights)
        return MultiVectorEmbeddings(first.modality, ids, several.offsets, several.vectors, first.encoder)
    total = np.zeros((len(ids), first.dimension), np.float32)
    for modality, own in rows.items():
        present = np.flatnonzero(own >= 0)
        chosen = _dense(vectors[modality], own[present])
        lengths = np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), _SHORTEST)
        total[present] += weights[modality][present, None] * (chosen / lengths)
    return Embeddings(first.modality, ids, total, first.encoder)


def one_side(ids: pa.StringArray, vectors: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """The vectors of one modality as they are, by item.

    Args:
        ids: (n,) of the items.
        vectors: Of texts, or of images.
        rows: (n,) the row of each item.
    """
    if isinstance(vectors, SparseEmbeddings):
        matrix = vectors.to_scipy()[rows]
        return SparseEmbeddings.from_scipy(vectors.modality, ids, matrix, vectors.vocabulary, vectors.encoder)
    if isinstance(vectors, MultiVectorEmbeddings):
        several = vectors.tokens.take(rows)
        return MultiVectorEmbeddings(vectors.modality, ids, several.offsets, several.vectors, vectors.encoder)
    return Embeddings(vectors.modality, ids, np.asarray(vectors.vectors)[rows], vectors.encoder)


def _weights(rows: Rows, shares: Mapping[Modality, float]) -> dict[Modality, NDArray[np.float32]]:
    """By modality: (n,) the weight of each item; 1 where the item has nothing else."""
    weights: dict[Modality, NDArray[np.float32]] = {}
    for modality, own in rows.items():
        others = [rows[other] < 0 for other in rows if other != modality]
        alone = np.all(others, axis=0) if others else np.ones(len(own), bool)
        weights[modality] = np.where(own < 0, 0, np.where(alone, 1, shares[modality])).astype(np.float32)
    return weights


def _dense(vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    assert isinstance(vectors, Embeddings)
    return np.asarray(vectors.vectors[rows], np.float32)


def _sparse(vectors: Vectors, rows: NDArray[np.int64], weights: NDArray[np.float32]) -> Any:
    from scipy.sparse import csr_array

    assert isinstance(vectors, SparseEmbeddings)
    whole = vectors.to_scipy()
    lengths = np.maximum(np.sqrt(np.asarray(whole.multiply(whole).sum(axis=1)).ravel()), _SHORTEST)
    present = np.flatnonzero(rows >= 0)
    factors = weights[present] / lengths[rows[present]]
    choose = csr_array((factors, (present, rows[present])), shape=(len(rows), len(vectors)))
    return choose @ whole


def _several(vectors: Mapping[Modality, Vectors], rows: Rows, weights: Weights) -> TokenVectors:
    """The vectors of both sides of each item: the greatest dot products grow with them, so this weighs the scores."""
    chosen = []
    for number in range(len(next(iter(rows.values())))):
        sides = []
        for modality, own in rows.items():
            if own[number] >= 0:
                part = vectors[modality]
                assert isinstance(part, MultiVectorEmbeddings)
                tokens = part.row(int(own[number])).astype(np.float32)
                sides.append(tokens * (weights[modality][number] / max(len(tokens), 1)))
        chosen.append(np.concatenate(sides))
    return TokenVectors.of(chosen)
