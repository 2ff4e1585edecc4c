"""Centroids of many vectors: k-means, and the nearest centroid of each vector, by FAISS."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import require
from visir.threads import cores

# FAISS, imported when it is needed, and the number of its threads.


def load_faiss(purpose: str) -> Any:
    """Return the module."""
    require("faiss", extra="hnsw", purpose=purpose)
    import faiss

    return faiss


@contextlib.contextmanager
def faiss_threads(faiss: Any, n: int) -> Iterator[None]:
    """Let FAISS use `n` threads inside the block."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


_BLOCK = 65_536
_ROUNDS = 6
_SAMPLE = 64
"""Vectors per centroid that k-means looks at."""
_MOST = 4096


def usual_count(vectors: int) -> int:
    """Return how many centroids so many vectors get: about 2 √vectors, a power of two, at most 4,096."""
    # More centroids find better and cost more to compute: with 6.4 million vectors some minutes on two cores.
    power = round(math.log2(2 * math.sqrt(max(vectors, 1))))
    return max(1, min(int(2**power), vectors // 8, _MOST))


def train_centroids(
    vectors: Any, count: int, purpose: str, *, unit: bool = False, sample: int = _SAMPLE
) -> NDArray[np.float32]:
    """Return the (count, d) centroids of k-means over a sample of the vectors; the same at every call."""
    # vectors: (m, d) in memory or memory-mapped, m at least `count`.
    faiss = load_faiss(purpose)
    chosen: Any = slice(None)
    if len(vectors) > sample * count:
        chosen = np.sort(np.random.default_rng(0).choice(len(vectors), sample * count, replace=False))
    looked_at = np.ascontiguousarray(vectors[chosen], np.float32)
    scale = np.float32(1) if unit else _scale(looked_at)
    kmeans = faiss.Kmeans(
        looked_at.shape[1], count, niter=_ROUNDS, seed=1, spherical=unit,
        min_points_per_centroid=1, max_points_per_centroid=sample,
    )  # fmt: skip
    with faiss_threads(faiss, cores()):
        kmeans.train(looked_at if scale == 1 else looked_at / scale)
    centroids: NDArray[np.float32] = np.ascontiguousarray(kmeans.centroids * scale, np.float32)
    return centroids


def nearest_centroids(vectors: Any, centroids: NDArray[np.float32], purpose: str) -> NDArray[np.int32]:
    """Return the (m,) nearest centroid of each vector, block by block."""
    faiss = load_faiss(purpose)
    nearest = np.empty(len(vectors), np.int32)
    with faiss_threads(faiss, cores()):
        for start in range(0, len(vectors), _BLOCK):
            block = np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32)
            scale = max(_scale(block), _scale(centroids))
            nearest[start : start + len(block)] = faiss.knn(block / scale, centroids / scale, 1)[1][:, 0]
    return nearest


def _scale(vectors: NDArray[np.float32]) -> np.float32:
    """A power of two near the largest number: FAISS squares numbers, and ends the process if a sum is infinite."""
    largest = float(np.abs(vectors).max(initial=0.0))
    return np.float32(2.0 ** math.floor(math.log2(largest))) if largest > 0 else np.float32(1)
