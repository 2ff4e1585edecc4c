"""Weighted sums of the vectors of texts and images, of any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.records import Embeddings, Modality, MultiVectorEmbeddings, Role, SparseEmbeddings, TokenVectors, Vectors

_SHORTEST = 1e-12
Rows = Mapping[Modality, NDArray[np.int64]]
Weights = Mapping[Modality, NDArray[np.float64]]


def weighted_sum(
    ids: pa.StringArray,
    vectors: Mapping[Modality, Vectors],
    rows: Rows,
    shares: Mapping[Modality, float],
    role: Role,
) -> Vectors:
    """The weighted sum of unit vectors, as long as the weighted mean of the two lengths."""
    # An item that has one of the two alone has its vector as it is. So the vectors of all items of a side can be
    # compared by their dot products too, and none depends on what else is in the side.
    # ids: (n,) of the items.
    # rows: (n,) the row of each item in `vectors`, −1 where it has none.
    first = next(iter(vectors.values()))
    if isinstance(first, MultiVectorEmbeddings):
        several = _several(vectors, rows, shares, role)
        return MultiVectorEmbeddings(first.modality, ids, several.offsets, several.vectors, first.encoder)
    lengths = {modality: _lengths(vectors[modality], own) for modality, own in rows.items()}
    weights = _weights(rows, shares)
    mean = sum(weights[modality] * lengths[modality] for modality in rows)
    factors = {
        modality: np.where(
            weights[modality] == 1, 1, weights[modality] * mean / np.maximum(lengths[modality], _SHORTEST)
        )
        for modality in rows
    }
    if isinstance(first, SparseEmbeddings):
        matrix = sum(_sparse(vectors[modality], own, factors[modality]) for modality, own in rows.items())
        return SparseEmbeddings.from_scipy(first.modality, ids, matrix, first.vocabulary, first.encoder)
    total = np.zeros((len(ids), first.dimension), np.float32)
    for modality, own in rows.items():
        present = np.flatnonzero(own >= 0)
        total[present] += factors[modality][present, None].astype(np.float32) * _dense(vectors[modality], own[present])
    return Embeddings(first.modality, ids, total, first.encoder)


def mean_direction(text: NDArray[np.float32], image: NDArray[np.float32], text_weight: float) -> NDArray[np.float32]:
    """(n, d) the same sum of n texts with images, from the (n, d) vectors of both."""
    lengths = [np.maximum(np.linalg.norm(side, axis=1, keepdims=True), _SHORTEST) for side in (text, image)]
    weights = np.float32(text_weight), np.float32(1 - text_weight)
    mean = weights[0] * lengths[0] + weights[1] * lengths[1]
    total = weights[0] * mean / lengths[0] * text + weights[1] * mean / lengths[1] * image
    return np.asarray(total, np.float32)


def _weights(rows: Rows, shares: Mapping[Modality, float]) -> Weights:
    """By modality: (n,) the weight of each item; 1 where the item has nothing else."""
    weights: dict[Modality, NDArray[np.float64]] = {}
    for modality, own in rows.items():
        others = [rows[other] < 0 for other in rows if other != modality]
        alone = np.all(others, axis=0) if others else np.ones(len(own), bool)
        weights[modality] = np.where(own < 0, 0.0, np.where(alone, 1.0, shares[modality]))
    return weights


def _lengths(vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) the length of the vector of each item; 0 where it has none."""
    if isinstance(vectors, SparseEmbeddings):
        whole = vectors.to_scipy()
        lengths = np.sqrt(np.asarray(whole.multiply(whole).sum(axis=1)).ravel())
    else:
        assert isinstance(vectors, Embeddings)
        lengths = np.linalg.norm(vectors.vectors, axis=1)
    return np.where(rows < 0, 0.0, lengths[rows])


def _dense(vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    assert isinstance(vectors, Embeddings)
    return np.asarray(vectors.vectors[rows], np.float32)


def _sparse(vectors: Vectors, rows: NDArray[np.int64], factors: NDArray[np.float64]) -> Any:
    from scipy.sparse import csr_array

    assert isinstance(vectors, SparseEmbeddings)
    present = np.flatnonzero(rows >= 0)
    choose = csr_array((factors[present], (present, rows[present])), shape=(len(rows), len(vectors)))
    return choose @ vectors.to_scipy()


def _several(
    vectors: Mapping[Modality, Vectors], rows: Rows, shares: Mapping[Modality, float], role: Role
) -> TokenVectors:
    """The vectors of both sides of each item. Those of a query are so scaled that the score is the weighted mean."""
    # The greatest dot products grow with the vectors of a query, so scaling them weighs the two scores.
    chosen = []
    for number in range(len(next(iter(rows.values())))):
        own: dict[Modality, NDArray[np.float32]] = {}
        for modality, places in rows.items():
            if places[number] >= 0:
                part = vectors[modality]
                assert isinstance(part, MultiVectorEmbeddings)
                own[modality] = part.row(int(places[number])).astype(np.float32)
        if role == "query" and len(own) > 1:
            own = {modality: tokens * (shares[modality] / max(len(tokens), 1)) for modality, tokens in own.items()}
        chosen.append(np.concatenate(list(own.values())))
    return TokenVectors.of(chosen)
