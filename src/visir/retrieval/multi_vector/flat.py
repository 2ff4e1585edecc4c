"""Exact MaxSim search over memory-mapped vectors: every query against every document."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from visir.display import counted, listed
from visir.errors import ConfigurationError, EmbeddingError
from visir.progress import Progress
from visir.records import MultiVectorEmbeddings, TokenVectors
from visir.records.columns import as_array
from visir.retrieval.answers import Hits
from visir.retrieval.index import StoredIndex
from visir.retrieval.multi_vector.compression import CompressedVectors, ResidualCodec, other_lengths
from visir.retrieval.multi_vector.scan import scan_tokens
from visir.retrieval.multi_vector.sides import BLOCK, TokenSide, cut, loops_for
from visir.retrieval.rows import MULTI, Rows
from visir.retrieval.scan import SearchState
from visir.retrieval.settings import setting

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


class MaxSimIndex(StoredIndex[MultiVectorEmbeddings]):
    """Kind "maxsim": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the vectors that it holds, bit by bit, in whatever
    # order documents were added and deleted. With `quantisation` it holds other vectors than it was given: nearby ones,
    # in fewer bytes (`info().details` says how many a vector takes).

    kind = "maxsim"
    exact = True
    form = MULTI
    settings_type: ClassVar[type[Any]] = MaxSimSettings

    @classmethod
    def _as_stored(
        cls, documents: MultiVectorEmbeddings, held: MultiVectorEmbeddings | None, settings: Any
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
        stored = replace(documents, vectors=vectors)
        check_lengths(stored)
        return stored

    def documents(self) -> MultiVectorEmbeddings:
        """Return the vectors of all documents, in order of their ids, copied into memory."""
        return _plain(super().documents())

    def select(self, ids: object) -> MultiVectorEmbeddings:
        """Return the vectors of these documents, in this order."""
        return _plain(super().select(ids))

    def _find(self, rows: MultiRows, built: Any, queries: MultiVectorEmbeddings, k: int, settings: Any) -> Hits:
        return scan_parts(rows, queries, np.arange(len(queries)), k, settings.device)

    def _details(self, rows: MultiRows, built: Any) -> dict[str, Any]:
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


def scan_parts(rows: MultiRows, queries: MultiVectorEmbeddings, chosen: NDArray[np.int64], k: int, device: str) -> Hits:
    """Return the best `k` documents of some queries, part by part: the score of a pair is the same in every part."""
    asking = TokenSide(queries, chosen)
    hits = []
    for part in range(len(rows.parts)):
        places = rows.part_rows(part)
        if len(places) == 0:
            continue
        if part not in rows.prepared:
            rows.prepared[part] = TokenSide(rows.parts[part], places)
        depth = min(k, len(places))
        indices, scores = scan_tokens(SearchState(asking, rows.prepared[part], depth), device or None)
        row = places[indices.ravel()] + rows.starts[part]
        hits.append(Hits(np.repeat(chosen, depth), rows.places[row], scores.ravel()))
    return Hits.joined(hits)


def check_lengths(vectors: MultiVectorEmbeddings) -> None:
    """Check, before vectors are added, that they can be scored."""
    for start, stop in cut(vectors.offsets, BLOCK):
        TokenSide(vectors, np.arange(start, stop))


def _plain(vectors: MultiVectorEmbeddings) -> MultiVectorEmbeddings:
    """The same vectors as an array."""
    return replace(vectors, vectors=np.asarray(vectors.vectors))
