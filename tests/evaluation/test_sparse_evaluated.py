"""Evaluating weighted words: the same road as for dense vectors, with a protocol that says what was scored how."""

from __future__ import annotations

from typing import Any

import numpy as np
from evaluation_toys import embed, make_collection
from scipy.sparse import csr_array

import visir
from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.evaluation.compare import compare
from visir.evaluation.explaining import Material, explain
from visir.evaluation.published import PublishedRow
from visir.records import Collection, Embeddings, EncoderCard, SparseEmbeddings, Vocabulary

SIZE = 50
CARD = EncoderCard(
    "words",
    "sparse",
    text_preprocessing={"expansion": "own terms only", "vocabulary": "toy", "terms": "abc", "max_length": 77},
)


def words(name: str = "toy") -> Vocabulary:
    return Vocabulary(name, [f"{name}{i}" for i in range(SIZE)], np.ones(SIZE, bool))  # type: ignore[arg-type]


def pairs_of(collection: Collection, seed: int = 0) -> tuple[list[SparseEmbeddings], list[Embeddings]]:
    """A sparse system and the dense one of the same numbers."""
    rng = np.random.default_rng(seed)
    ids = collection.images["id"].to_pylist()
    images = rng.random((len(ids), SIZE)) * (rng.random((len(ids), SIZE)) < 0.3)
    rows = [ids.index(one) for one in collection.captions["image_id"].to_pylist()]
    texts = images[rows] * (rng.random((len(rows), SIZE)) < 0.5)
    sides: list[tuple[Any, Any, Any]] = [
        ("image", ids, images.astype(np.float32)),
        ("text", collection.captions["id"].to_pylist(), texts.astype(np.float32)),
    ]
    sparse = [SparseEmbeddings.from_scipy(side, names, csr_array(m), words(), CARD) for side, names, m in sides]
    return sparse, [embed(side, names, m) for side, names, m in sides]


def test_measured_as_the_dense_vectors_of_the_same_numbers() -> None:
    collection = make_collection(images=30)
    sparse, dense = pairs_of(collection)
    one = visir.evaluate(collection, sparse, folds=2)
    other = visir.evaluate(collection, dense, similarity="dot", folds=2)
    assert one.result.aggregates == other.result.aggregates
    assert one.runs["t2i"].indices.tolist() == other.runs["t2i"].indices.tolist()
    # One task alone, and as a mapping.
    alone = visir.evaluate(collection, {"image": sparse[0], "text": sparse[1]}, tasks=("t2i",), folds=2)
    assert alone.result.aggregates["t2i"] == one.result.aggregates["t2i"]


def test_the_protocol_says_dot_expansion_and_vocabulary() -> None:
    collection = make_collection(images=10)
    sparse, dense = pairs_of(collection)
    one, other = visir.evaluate(collection, sparse).result, visir.evaluate(collection, dense).result
    card = dict(one.protocol.card())
    assert card["similarity"] == "dot" and other.protocol.similarity == "cosine"
    assert card["text preprocessing"] == "expansion own terms only" and card["truncation"] == "max length 77"
    assert card["vocabulary"] == f"toy · 50 terms · {words().fingerprint[:12]}"
    assert "vocabulary" not in dict(other.protocol.card())
    # Similarity, vocabulary and expansion are the system's own.
    compared = compare([other, one])
    assert {"similarity", "vocabulary", "text_preprocessing"} <= set(compared.system_differences)
    assert compared.system_differences["similarity"] == ("cosine", "dot") and not compared.allowed


def test_faults_are_named() -> None:
    collection = make_collection(images=10)
    sparse, dense = pairs_of(collection)
    with refused(EmbeddingError, code="sparse-vectors-scored-dot"):
        visir.evaluate(collection, sparse, similarity="cosine")
    with refused(
        EmbeddingError,
        "image embeddings by words",
        "sparse",
        "text",
        "embeddings by toy dense",
        code="not-of-one-space",
    ):
        visir.evaluate(collection, [sparse[0], dense[1]])
    with refused(ConfigurationError, "words", code="dcg-cm-takes"):
        visir.evaluate(collection, sparse, estimator="self")
    assert visir.evaluate(collection, sparse, estimator=dense).result.mean("t2i", "dcg_cm@10") > 0
    other = sparse[1]
    other = SparseEmbeddings("text", other.ids, other.offsets, other.terms, other.values, words("other"), CARD)
    with refused(EmbeddingError, code="not-weigh-same-words"):
        visir.evaluate(collection, [sparse[0], other])


def test_explained_by_a_search_of_their_own_kind() -> None:
    collection = make_collection(images=30)
    images, texts = pairs_of(collection)[0]
    evaluation = visir.evaluate(collection, [images, texts], depth=3)
    values = {f"R@{k}": round(100 * evaluation.result.mean("t2i", f"hit@{k}"), 2) for k in (1, 5, 10)}
    found = explain(Material.of(evaluation, (images, texts)), PublishedRow("words", {"t2i": values}))
    assert found.best.reproduced == 3
    assert found.scored == "searched anew; similarity: dot"
