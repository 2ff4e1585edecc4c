"""Token pooling: fewer vectors for each document, as means of similar ones."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError
from visir.progress import Progress
from visir.records import MultiVectorEmbeddings, TokenVectors


def pool_tokens(embeddings: MultiVectorEmbeddings, factor: int) -> MultiVectorEmbeddings:
    """Return the embeddings with at most a `factor`-th of the vectors of each item.

    Vectors of an item are clustered by their cosines: hierarchical clustering (Ward) of their rows of 1 − cosine. A
    cluster becomes the mean of its vectors, made of length 1 (Clavié, Chaffin and Adams, 2024, arXiv:2409.14683,
    section 3). An item with t vectors keeps max(t // factor, 1). Pool documents before they are indexed; queries stay
    as they are.

    Clusters of unit vectors are those of colpali-engine's `HierarchicalTokenPooler`; vectors of other lengths are
    divided by their lengths first.

    Args:
        embeddings: The vectors of the documents.
        factor: From 1, which leaves the vectors as they are.

    Raises:
        ConfigurationError: The factor is not a whole number from 1.
        EmbeddingError: A vector is zero.

    Example:
        >>> pages = MultiVectorEmbeddings.of({"a": [[1, 0], [0, 1], [1, 0.1], [0, 1]]})
        >>> [[round(value, 2) for value in vector] for vector in pool_tokens(pages, 2)["a"].tolist()]
        [[1.0, 0.05], [0.0, 1.0]]
    """
    if isinstance(factor, bool) or not isinstance(factor, Integral) or factor < 1:
        raise ConfigurationError(
            f"the factor of token pooling must be a whole number from 1, not {factor!r}.",
            hint="2 halves the number of vectors, 3 leaves a third",
            code="factor-token-pooling-whole",
        )
    if factor == 1:
        return embeddings
    pooled = []
    with Progress("pooling vectors", len(embeddings), "items") as advance:
        for vectors in embeddings.normalise().tokens:
            pooled.append(_pooled(vectors, int(factor)))
            advance()
    if not pooled:
        return embeddings
    tokens = TokenVectors.of(pooled)
    dtype: Any = embeddings.vectors.dtype
    return MultiVectorEmbeddings(
        embeddings.modality,
        embeddings.ids,
        tokens.offsets,
        tokens.vectors.astype(dtype, copy=False),
        embeddings.encoder,
        ", ".join(filter(None, [embeddings.origin, f"pooled by {factor}"])),
    )


def _pooled(vectors: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    """Clusters in order of their first vector, each as its mean of length 1."""
    from scipy.cluster.hierarchy import ClusterWarning, fcluster, linkage

    clusters = max(len(vectors) // factor, 1)
    if len(vectors) == 1:
        return vectors
    with warnings.catch_warnings():  # SciPy thinks that rows of distances were given by mistake
        warnings.simplefilter("ignore", ClusterWarning)
        tree = linkage(1 - vectors @ vectors.T, method="ward")
    labels = fcluster(tree, t=clusters, criterion="maxclust")
    _, first, cluster = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))[cluster]
    sums = np.zeros((len(first), vectors.shape[1]), np.float64)
    np.add.at(sums, order, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    # Opposite vectors in one cluster have no mean direction: its first vector stands for them.
    nothing = lengths[:, 0] < 1e-6
    sums[nothing], lengths[nothing] = vectors[np.sort(first)[nothing]], 1.0
    return np.asarray(sums / lengths, np.float32)
