"""Token pooling and alignment."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.records import MultiVectorEmbeddings
from visir.retrieval import alignment, pool_tokens
from visir.retrieval.exact import search


def test_pairs_of_similar_vectors_become_their_mean() -> None:
    """Two directions, each twice: their means, in order of their first vectors."""
    pages = MultiVectorEmbeddings.of({"a": [[0, 2], [1, 0], [0, 1], [1, 0.2]], "b": [[3, 4]]})
    pooled = pool_tokens(pages, 2)
    second = np.array([1, 0]) + np.array([1, 0.2]) / np.hypot(1, 0.2)
    np.testing.assert_allclose(pooled["a"], [[0, 1], second / np.linalg.norm(second)], atol=1e-6)
    np.testing.assert_allclose(pooled["b"], [[0.6, 0.8]], atol=1e-6)
    assert pooled.counts.tolist() == [2, 1] and pooled.origin == "pooled by 2"
    assert pool_tokens(pages, 1) is pages


@pytest.mark.filterwarnings("ignore:The symmetric")
@pytest.mark.parametrize("factor", [2, 3, 5, 100])
def test_clusters_are_those_of_wards_method_on_rows_of_distances(factor: int) -> None:
    """The definition, one item at a time, in double precision."""
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal((n, 16)) for n in (2, 7, 30, 41)]
    pages = MultiVectorEmbeddings.of([*"abcd"], matrices).normalise()
    pooled = pool_tokens(pages, factor)
    for name, vectors in zip("abcd", pages.tokens, strict=True):
        clusters = max(len(vectors) // factor, 1)
        labels = fcluster(linkage(1 - vectors @ vectors.T, method="ward"), t=clusters, criterion="maxclust")
        means = np.stack([vectors[labels == label].astype(np.float64).mean(axis=0) for label in np.unique(labels)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        order = np.argsort([np.flatnonzero(labels == label)[0] for label in np.unique(labels)])
        np.testing.assert_allclose(pooled[name], means[order], atol=1e-6)
        assert len(pooled[name]) == clusters


def test_precision_stays_and_opposite_vectors_are_no_fault() -> None:
    pages = MultiVectorEmbeddings.of({"a": np.array([[1, 0], [-1, 0]], np.float16)})
    assert pool_tokens(pages, 2).vectors.dtype == np.float16
    assert pool_tokens(pages, 2)["a"].tolist() == [[1, 0]]
    none = pages.select([])
    assert len(pool_tokens(none, 2)) == 0


@pytest.mark.parametrize("factor", [0, -1, 2.0, "2", True])
def test_a_factor_that_is_none(factor: object) -> None:
    with refused(ConfigurationError, code="factor-token-pooling-whole"):
        pool_tokens(MultiVectorEmbeddings.of({"a": [[1, 0]]}), factor)  # type: ignore[arg-type]
    with refused(EmbeddingError, "a", code="embedding-no-cosine"):
        pool_tokens(MultiVectorEmbeddings.of({"a": [[0, 0]]}), 2)


def test_alignment_by_hand_and_as_the_search_scores() -> None:
    places, scores = alignment([[1, 0], [0, 1], [1, 1]], [[0, 2], [3, 1], [3, 1]])
    assert places.tolist() == [1, 0, 1] and scores.tolist() == [3, 2, 4]
    rng = np.random.default_rng(0)
    text = MultiVectorEmbeddings.of({"q": rng.standard_normal((7, 33))}, modality="text")
    pages = MultiVectorEmbeddings.of({f"p{i}": rng.standard_normal((5, 33)) for i in range(9)})
    for name, score in search(text, pages).run.answer("q"):
        places, scores = alignment(text["q"], pages[name])
        assert np.float32(scores.sum()) == np.float32(score)
        products = text["q"].astype(np.float64) @ pages[name].astype(np.float64).T
        np.testing.assert_array_equal(places, products.argmax(axis=1))
        np.testing.assert_allclose(scores, products.max(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("query", "document", "message"),
    [
        ([[1, 0]], [[1, 0, 0]], "vectors of 2 numbers in the query, of 3 in the document"),
        ([1, 0], [[1, 0]], r"the query is no \(t, d\) matrix of finite numbers: int64 \(2,\)"),
        ([[1, 0]], [[np.nan, 0]], r"the document is no \(t, d\) matrix of finite numbers: float64 \(1, 2\)"),
        ([[1, 0]], [[1, 0], [1]], "the document is no matrix of numbers"),
    ],
)
def test_what_cannot_be_aligned(query: object, document: object, message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        alignment(query, document)
