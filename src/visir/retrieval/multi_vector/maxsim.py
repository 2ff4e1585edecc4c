"""The kinds of index for several vectors each: MaxSim with every document, or with those that centroids find."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from visir.arrays import ArrayArchive
from visir.display import counted, listed
from visir.errors import ConfigurationError, EmbeddingError
from visir.progress import Progress
from visir.records import MultiVectorEmbeddings, TokenVectors
from visir.records.columns import as_array
from visir.retrieval.answers import CandidateRows, Hits
from visir.retrieval.clustering import nearest_centroids, train_centroids, usual_count
from visir.retrieval.index import Finder
from visir.retrieval.multi_vector.compression import CompressedVectors, ResidualCodec, other_lengths
from visir.retrieval.multi_vector.scan import TokenSide, cut, loops_for
from visir.retrieval.rows import MULTI, Rows
from visir.retrieval.settings import recall, setting
from visir.threads import Share, one_blas_thread, spread

# Token pooling: fewer vectors for each document, as means of similar ones.


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
    return replace(
        embeddings,
        offsets=tokens.offsets,
        vectors=tokens.vectors.astype(dtype, copy=False),
        origin=", ".join(filter(None, [embeddings.origin, f"pooled by {factor}"])),
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


# What a late interaction looked at: the vector of a document that each vector of a query is scored by.


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
    loops_for(len(left) * right.size).align(left, right, places, scores)
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


QUANTISATION = "none: vectors as they are; float16; residual: the nearest centroid and a few bits for each number"


@dataclass(frozen=True)
class MaxSimSettings:
    """The settings of an exact index of multi-vectors."""

    quantisation: str = setting("none", QUANTISATION, among=("none", "float16", "residual"))
    bits: int = setting(
        4, "with residual: bits for each number; 3 take the bytes of 4, 5 to 7 those of 8", least=1, most=8
    )
    device: str = setting("", "a device of torch (cuda) for the matrix products; empty: the cores", search=True)


MultiRows = Rows[MultiVectorEmbeddings]


class MaxSim(Finder[MultiVectorEmbeddings]):
    """Kind "maxsim": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the vectors that it holds, bit by bit, in whatever
    # order documents were added and deleted. With `quantisation` it holds other vectors than it was given: nearby ones,
    # in fewer bytes (`info().details` says how many a vector takes).

    form = MULTI
    settings_type: ClassVar[type[Any]] = MaxSimSettings

    def stored(
        self, documents: MultiVectorEmbeddings, held: MultiVectorEmbeddings | None, settings: Any
    ) -> MultiVectorEmbeddings:
        vectors: Any = documents.vectors
        if settings.quantisation == "float16":
            with np.errstate(over="ignore"):  # infinities are refused by name
                vectors = np.asarray(vectors).astype(np.float16, copy=False)
        elif settings.quantisation == "residual":
            known = None if held is None else held.vectors
            trained = isinstance(known, CompressedVectors)
            codec = known.codec if trained else ResidualCodec.trained(vectors, settings.bits)  # type: ignore[union-attr]
            if trained and codec.unit:
                _check_unit(documents)
            vectors = codec.encode(vectors)
        return replace(documents, vectors=vectors)

    def search(self, built: Any, rows: MultiRows, queries: TokenSide, k: int, settings: Any) -> CandidateRows | Hits:
        return MULTI.scan(rows, queries, k, settings.device)

    def details(self, built: Any, rows: MultiRows, settings: Any) -> dict[str, Any]:
        vectors: Any = rows.parts[0].vectors
        each = (
            vectors.codec.width if isinstance(vectors, CompressedVectors) else vectors.dtype.itemsize * vectors.shape[1]
        )
        count = sum(len(part.vectors) for part in rows.parts)
        return {"vectors": count, "bytes_per_vector": int(each)}


def _check_unit(documents: MultiVectorEmbeddings) -> None:
    """Refuse vectors of other lengths than 1, which an index of vectors of length 1 would change to 1."""
    rows = other_lengths(documents.vectors)
    if len(rows):
        owners = np.unique(np.searchsorted(documents.offsets, rows, side="right") - 1)
        raise EmbeddingError(
            f"vectors of this compressed index have length 1, but not those of {counted(len(owners), 'documents')}: "
            f"{listed((repr(documents.ids[int(row)].as_py()) for row in owners[:3]), len(owners))}.",
            hint="normalise them, or build the index with quantisation=float16",
            code="vectors-compressed-index-length",
        )


# Centroids find candidates, exact MaxSim scores them.

_PURPOSE = "an index of kind 'maxsim-ivf'"
_PRODUCTS = 2**23
"""Products of centroids and vectors of queries at once (32 MiB)."""


@dataclass(frozen=True)
class MaxSimIvfSettings:
    """The settings of an index of multi-vectors with centroids: its cost and its quality."""

    quantisation: str = setting("none", QUANTISATION, among=("none", "float16", "residual"))
    bits: int = setting(4, "with residual: bits for each number", least=1, most=8)
    lists: int = setting(0, "centroids, each with a list of documents; 0: about twice the root of all vectors", least=0)
    probes: int = setting(
        4, "lists read for each vector of a query: more find better, and cost more", least=1, search=True
    )
    candidates: int = setting(
        512, "documents scored exactly, chosen by their centroids: more find better", least=1, search=True
    )
    device: str = setting("", "a device of torch (cuda) for exact scans; empty: the cores", search=True)
    recall: float = recall()


@dataclass(frozen=True, eq=False)
class CentroidLists:
    """Which centroids each document has, and the documents of each centroid."""

    centroids: NDArray[np.float32]  # (k, d) float32
    offsets: NDArray[np.int64]  # (rows + 1,) where the centroids of each row start
    codes: NDArray[np.int32]  # (m,) int32, the centroids of a row, ascending, each once
    starts: NDArray[np.int64]  # (k + 1,) where the list of each centroid starts
    rows: NDArray[np.int32]  # (m,) int32, the rows that have a centroid

    @classmethod
    def of(cls, centroids: NDArray[np.float32], offsets: NDArray[np.int64], codes: NDArray[np.int32]) -> CentroidLists:
        """Make the lists of the centroids of each row."""
        owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(centroids) + 1))
        return cls(centroids, offsets, codes, starts.astype(np.int64), owners[order])


class MaxSimIvf(MaxSim):
    """Kind "maxsim-ivf": the centroids near the vectors of a query find candidates, exact MaxSim scores them."""

    # Every vector of a query reads the lists of its nearest `probes` centroids. The documents there are ranked by
    # MaxSim with their vectors replaced by their centroids, which is cheap; the best `candidates` of them are scored
    # exactly (Santhanam et al., 2022, PLAID, arXiv:2205.09707, without its steps of pruning). So a pair has the same
    # score as in every search of visir, and a run differs from the exact one only by documents that are no candidates.
    # If fewer than `k` documents are candidates, the query is answered exactly.
    # Centroids stay as they were built when documents are added; they are computed again when more than half of the
    # documents were deleted. After many additions of another kind, build the index again.

    settings_type = MaxSimIvfSettings
    dumped_as = ".npz"

    def build(self, rows: MultiRows, settings: MaxSimIvfSettings) -> CentroidLists:
        vectors: Any = rows.parts[0].vectors
        if isinstance(vectors, CompressedVectors) and settings.lists == 0:
            centroids = vectors.codec.centroids  # each vector has its nearest one already
        else:
            count = min(settings.lists or usual_count(len(vectors)), len(vectors))
            centroids = train_centroids(vectors, count, _PURPOSE)
        return _grown(CentroidLists.of(centroids, np.zeros(1, np.int64), np.empty(0, np.int32)), rows)

    def add(self, built: CentroidLists, rows: MultiRows, settings: MaxSimIvfSettings) -> CentroidLists:
        return _grown(built, rows)

    def search(self, built: Any, rows: MultiRows, queries: TokenSide, k: int, settings: Any) -> CandidateRows | Hits:
        wanted = min(max(k, settings.candidates), len(rows.live))
        if wanted == len(rows.live):
            return MULTI.scan(rows, queries, k, settings.device)
        chosen = _chosen(built, rows.dead, queries, wanted, settings.probes)
        return CandidateRows(chosen.astype(np.int64), device=settings.device)

    def dump(self, built: CentroidLists, path: Path) -> None:
        np.savez(path, centroids=built.centroids, offsets=built.offsets, codes=built.codes)

    def load(self, path: Path, rows: MultiRows, facts: Mapping[str, Any], settings: MaxSimIvfSettings) -> CentroidLists:
        with ArrayArchive(path) as arrays:
            lists = CentroidLists.of(arrays["centroids"], arrays["offsets"], arrays["codes"])
        if len(lists.offsets) != len(rows) + 1:
            raise ValueError(f"centroids of {len(lists.offsets) - 1} documents for {len(rows)} rows")
        return lists

    def efforts(self, built: CentroidLists, rows: MultiRows) -> list[dict[str, int]]:
        steps = [64 * 2**step for step in range(24)]
        efforts = [
            {"candidates": count, "probes": 4 if count < 2048 else 16} for count in steps if count < len(rows.live)
        ]
        return [*efforts, {"candidates": len(rows.live)}]

    def details(self, built: CentroidLists, rows: MultiRows, settings: Any) -> dict[str, Any]:
        own = {"centroids": len(built.centroids), "postings": len(built.codes)}
        return {**super().details(built, rows, settings), **own}


def _grown(lists: CentroidLists, rows: MultiRows) -> CentroidLists:
    """Give their centroids to all rows that have none."""
    offsets, codes = [lists.offsets], [lists.codes]
    first = len(lists.offsets) - 1
    for part, start in zip(rows.parts, rows.starts, strict=False):
        begin = max(first - int(start), 0)
        if begin >= len(part):
            continue
        edges = part.offsets[begin:] - part.offsets[begin]
        nearest = _nearest(part.vectors[int(part.offsets[begin]) :], lists.centroids)
        owners = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        pairs = np.unique(owners * len(lists.centroids) + nearest)
        counts = np.bincount(pairs // len(lists.centroids), minlength=len(edges) - 1)
        offsets.append(offsets[-1][-1] + np.cumsum(counts))
        codes.append((pairs % len(lists.centroids)).astype(np.int32))
    return CentroidLists.of(lists.centroids, np.concatenate(offsets).astype(np.int64), np.concatenate(codes))


def _nearest(vectors: Any, centroids: NDArray[np.float32]) -> NDArray[np.int32]:
    if isinstance(vectors, CompressedVectors) and np.array_equal(vectors.codec.centroids, centroids):
        return vectors.nearest
    return nearest_centroids(vectors, centroids, _PURPOSE)


def _chosen(
    lists: CentroidLists, dead: NDArray[np.bool_], queries: TokenSide, wanted: int, probes: int
) -> NDArray[np.int32]:
    """Return the best (n, wanted) rows of each query by their centroids, -1 where there are fewer."""
    size, probes = len(lists.centroids), min(probes, len(lists.centroids))
    selected = np.full((len(queries), wanted), -1, np.int32)
    with one_blas_thread():
        for start, stop in cut(queries.offsets, max(_PRODUCTS // size, 1)):
            vectors, offsets = queries.block(start, stop)
            products = vectors @ lists.centroids.T
            nearest = np.argpartition(-products, probes - 1, axis=1)[:, :probes].astype(np.int64)
            across = np.ascontiguousarray(products.T)
            loops = loops_for(products.size)

            def share(part: Share) -> None:
                a, b = (round((stop - start) * edge) for edge in part)  # noqa: B023 (called before the next turn)
                loops.choose(  # noqa: B023
                    across, nearest, offsets, a, b, lists.starts, lists.rows, lists.offsets, lists.codes, dead,  # noqa: B023
                    selected[start:stop],  # noqa: B023
                )  # fmt: skip

            spread(share)
    return selected
