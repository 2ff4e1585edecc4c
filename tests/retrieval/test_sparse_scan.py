"""Exact sparse search against SciPy in float64, and its promises: order, blocks and threads change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import Embeddings, EncoderCard, Gallery, Qrels, SparseEmbeddings, Vocabulary
from visir.retrieval.exact import SearchResult, search, search_both
from visir.retrieval.ranks import ranks_of
from visir.retrieval.sparse import scan, scan_kernels

CARD = EncoderCard("test", "sparse")
TIE_RULES = ("id", "pessimistic", "optimistic")


def vocabulary(size: int, name: str = "test") -> Vocabulary:
    return Vocabulary(name, pa.array([f"{name}{i}" for i in range(size)]), np.ones(size, bool))


def sparse(modality: Any, matrix: Any, ids: list[str] | None = None, words: Vocabulary | None = None) -> Any:
    ids = ids or [f"{modality[0]}{i:05}" for i in range(matrix.shape[0])]
    return SparseEmbeddings.from_scipy(modality, ids, csr_array(matrix), words or vocabulary(matrix.shape[1]), CARD)


def oracle(queries: SparseEmbeddings, candidates: SparseEmbeddings) -> np.ndarray:
    """All scores: SciPy's product of float64 matrices (one term after the other), rounded to float32."""
    product = queries.to_scipy().astype(np.float64) @ candidates.to_scipy().astype(np.float64).T
    return product.toarray().astype(np.float32)


def expected_ranks(row: np.ndarray, positive: np.ndarray, ties: str) -> list[int]:
    """Ranks of the positives of one query, by counting what stands before each."""
    ranks = []
    for p in np.flatnonzero(positive):
        tied = row == row[p]
        before = tied & (np.arange(len(row)) < p)
        if ties == "pessimistic":
            before = tied & ~positive | before & positive
        elif ties == "optimistic":
            before = before & positive
        ranks.append(int(1 + (row > row[p]).sum() + before.sum()))
    return sorted(ranks)


def random_rows(rng: np.random.Generator, n: int, terms: int, density: float, grid: bool) -> np.ndarray:
    weights = np.abs(rng.standard_normal((n, terms))) * (rng.random((n, terms)) < density)
    return (np.ceil(weights) if grid else weights).astype(np.float32)


@st.composite
def problems(draw: st.DrawFn) -> tuple[SparseEmbeddings, SparseEmbeddings, np.random.Generator]:
    """Two sides with copies, empty rows, and (on a grid) equal scores of unequal vectors."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    terms, distinct = draw(st.sampled_from([1, 5, 40, 300])), draw(st.integers(1, 60))
    pool = random_rows(rng, distinct, terms, draw(st.sampled_from([0.0, 0.02, 0.2, 0.9])), draw(st.booleans()))
    pool[rng.random(distinct) < 0.1] = 0
    images = pool[rng.integers(0, distinct, draw(st.integers(1, 90)))]
    texts = pool[rng.integers(0, distinct, draw(st.integers(1, 130)))]
    return sparse("image", images), sparse("text", texts), rng


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(), depth=st.sampled_from([1, 3, 10, 1000]))
def test_equals_the_oracle_in_both_directions_under_every_tie_rule(
    problem: tuple[SparseEmbeddings, SparseEmbeddings, np.random.Generator], depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, texts, rng = problem
    monkeypatch.setattr(scan, "WIDTH", int(rng.integers(1, 60)))
    monkeypatch.setattr(scan, "TILE", 64)
    monkeypatch.setattr(scan, "FREQUENT", float(rng.choice([0.0, 0.3, 2.0])))  # all columns, some, all lists
    scores = oracle(texts, images)
    positive = rng.random(scores.shape) < 0.1
    positive[rng.integers(0, len(texts)), rng.integers(0, len(images))] = True
    pairs = [(texts.ids[int(t)].as_py(), images.ids[int(i)].as_py()) for t, i in np.argwhere(positive)]
    qrels: Any = {
        "t2i": Qrels.of([t for t, _ in pairs], [i for _, i in pairs]),
        "i2t": Qrels.of([i for _, i in pairs], [t for t, _ in pairs]),
    }
    for ties in TIE_RULES:
        found = search_both(images, texts, qrels=qrels, depth=depth, ties=ties)  # type: ignore[arg-type]
        for task, matrix, relevant in (("t2i", scores, positive), ("i2t", scores.T, positive.T)):
            one = found[task]  # type: ignore[index]
            asked = np.flatnonzero(relevant.any(1))
            order = np.argsort(-matrix[asked], axis=1, kind="stable")[:, :depth]
            assert np.array_equal(one.run.indices.reshape(len(asked), -1), order)
            best = np.take_along_axis(matrix[asked], order, axis=1)
            assert np.array_equal(one.run.scores.reshape(len(asked), -1), best)
            assert one.ranks is not None
            assert one.ranks.ranks.tolist() == [
                rank for q in asked for rank in expected_ranks(matrix[q], relevant[q], ties)
            ]


def clustered(seed: int = 0, images: int = 300, terms: int = 500) -> tuple[Any, Any, dict[Any, Qrels]]:
    """Captions share some words with their image; words are as uneven as in language."""
    rng = np.random.default_rng(seed)
    often = np.minimum(1, 8 / np.arange(1, terms + 1))
    rows = np.abs(rng.standard_normal((images, terms))) * (rng.random((images, terms)) < often)
    texts = np.repeat(rows, 5, axis=0) * (rng.random((5 * images, terms)) < 0.4)
    one, other = sparse("image", rows.astype(np.float32)), sparse("text", texts.astype(np.float32))
    owner = np.repeat(one.ids.to_pylist(), 5).tolist()
    return one, other, {"t2i": Qrels.of(other.ids, owner), "i2t": Qrels.of(owner, other.ids)}


def same(one: SearchResult, other: SearchResult) -> bool:
    assert one.ranks is not None and other.ranks is not None
    runs = all(np.array_equal(getattr(one.run, p), getattr(other.run, p)) for p in ("offsets", "indices", "scores"))
    return runs and one.run.queries.equals(other.run.queries) and np.array_equal(one.ranks.ranks, other.ranks.ranks)


def test_order_blocks_threads_and_passes_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts, qrels = clustered()
    plain = search_both(images, texts, qrels=qrels)
    rng = np.random.default_rng(1)
    shuffled = [side.select(side.ids.take(pa.array(rng.permutation(len(side))))) for side in (images, texts)]
    mixed = search_both(*shuffled, qrels=qrels)
    alone: Any = {
        "t2i": search(texts, images, "t2i", qrels=qrels["t2i"]),
        "i2t": search(images, texts, "i2t", qrels=qrels["i2t"]),
    }
    monkeypatch.setattr(scan, "WIDTH", 37)
    monkeypatch.setattr(scan, "TILE", 64)
    monkeypatch.setattr(scan, "PAIRS", 10)
    monkeypatch.setattr("visir.threads.cores", lambda: 3)
    small = search_both(images, texts, qrels=qrels)
    for task, one in plain.items():
        assert same(one, mixed[task]) and same(one, alone[task]) and same(one, small[task])


def test_the_sum_runs_in_term_order() -> None:
    """Weights cannot cancel, but rounding tells orders apart.

    2^24 + 1 is halfway between two float32 numbers; alone it is rounded to the even one, 2^24. 2^-29 is half a unit of
    float64 there: added *after* it, once or twice, it is lost, and the score stays 2^24. Added *before*, 2^-29 + 2^-29
    = 2^-28 is a whole unit, the sum is above halfway, and the score is 2^24 + 2.
    """
    weights = np.array([[2.0**24, 1.0, 2.0**-29, 2.0**-29]], np.float32)
    ones = np.ones((1, 4), np.float32)
    run = search(sparse("text", ones), sparse("image", weights), "t2i").run
    assert run.scores.tolist() == [2.0**24]
    run = search(sparse("text", ones), sparse("image", weights[:, ::-1]), "t2i").run
    assert run.scores.tolist() == [2.0**24 + 2]


def test_nothing_in_common_scores_0_and_ties_by_the_rule() -> None:
    """One query, word 0; images 0–2 have word 1 only, image 3 nothing, image 4 word 0. The positive is image 2.

    Scores 0 0 0 0 1. By id: image 4, then 0, 1, 2: rank 4. Pessimistic: after 4, 0, 1, 3: rank 5. Optimistic: 2.
    """
    images = sparse("image", np.array([[0, 1], [0, 2], [0, 3], [0, 0], [1, 0]], np.float32))
    texts = sparse("text", np.array([[1, 0]], np.float32))
    qrels = Qrels.of(["t00000"], ["i00002"])
    for ties, rank in zip(TIE_RULES, (4, 5, 2), strict=True):
        found = search(texts, images, "t2i", qrels=qrels, ties=ties)  # type: ignore[arg-type]
        assert found.ranks is not None and found.ranks.ranks.tolist() == [rank]
    assert found.run.answer("t00000") == [
        ("i00004", 1.0), ("i00000", 0.0), ("i00001", 0.0), ("i00002", 0.0), ("i00003", 0.0)
    ]  # fmt: skip


def test_an_empty_query_and_a_side_without_any_word() -> None:
    images, texts = sparse("image", np.zeros((4, 3), np.float32)), sparse("text", np.zeros((2, 3), np.float32))
    run = search(texts, images, "t2i", depth=2).run
    assert run.answer("t00001") == [("i00000", 0.0), ("i00001", 0.0)]


def test_rising_scores_are_kept_right_past_every_shrinking() -> None:
    """Every candidate is better than all before it, and there are more than the room for candidates holds."""
    n = 3 * scan_kernels.CHUNK + 7
    images = sparse("image", np.arange(1, n + 1, dtype=np.float32)[:, None])
    texts = sparse("text", np.ones((1, 1), np.float32))
    for depth in (1, 2, 100, n):
        run = search(texts, images, "t2i", depth=depth).run
        assert run.indices.tolist() == list(range(n - 1, n - 1 - depth, -1))


def test_ranks_of_the_whole_run_are_the_ranks_of_the_search() -> None:
    images, texts, qrels = clustered(images=60)
    for ties in TIE_RULES:
        for task, one in search_both(images, texts, qrels=qrels, depth=5000, ties=ties).items():  # type: ignore[arg-type]
            again = ranks_of(one.run, qrels[task], ties)  # type: ignore[arg-type]
            assert one.ranks is not None and np.array_equal(again.ranks, one.ranks.ranks)


def test_from_disk_and_over_a_smaller_gallery(tmp_path: Any) -> None:
    images, texts, qrels = clustered(images=60)
    for name in ("offsets", "terms", "values"):
        np.save(tmp_path / f"{name}.npy", getattr(images, name))
    parts = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("offsets", "terms", "values")]
    mapped = SparseEmbeddings("image", images.ids, *parts, images.vocabulary, CARD)
    assert same(search(texts, mapped, "t2i", qrels=qrels["t2i"]), search(texts, images, "t2i", qrels=qrels["t2i"]))
    some = Gallery.of("image", images.ids.to_pylist()[::3], "every third")
    part, whole = search(texts, mapped, "t2i", gallery=some).run, search(texts, images, "t2i").run
    query = texts.ids[7].as_py()
    listed = set(some.ids.to_pylist())  # type: ignore[union-attr]
    assert part.answer(query) == [(d, s) for d, s in whole.answer(query) if d in listed]


def test_faults_are_named() -> None:
    images, texts, _ = clustered(images=4, terms=8)
    with refused(EmbeddingError, code="sparse-vectors-scored-dot"):
        search(texts, images, "t2i", similarity="cosine")
    assert search(texts, images, "t2i").run.provenance["similarity"] == "dot"
    dense = Embeddings("image", images.ids, np.ones((4, 8), np.float32), CARD)
    with refused(
        EmbeddingError,
        "text embeddings by test",
        "sparse",
        "image",
        "embeddings by test dense",
        code="not-of-one-space",
    ):
        search_both(dense, texts)
    other = sparse("image", np.ones((2, 8), np.float32), words=vocabulary(8, "other"))
    with refused(EmbeddingError, "other", "8", code="not-weigh-same-words") as fault:
        search(texts, other, "t2i")
    assert "over the vocabulary 'test' (8 terms)" in str(fault.value)
    huge = [sparse(side, np.full((1, 8), 1e25, np.float32)) for side in ("text", "image")]
    with refused(EmbeddingError, "t00000", "i00000", "t2i", code="score-query-document-too"):
        search(*huge, "t2i")
