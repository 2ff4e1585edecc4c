"""Exact MaxSim search against a slow reference in double precision: scores, orders, ties, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import EmbeddingError, EncoderError
from visir.records import Embeddings, EncoderCard, Gallery, MultiVectorEmbeddings, Pools, Qrels
from visir.retrieval.exact import search, search_both
from visir.retrieval.multi_vector import scan
from visir.retrieval.pools import search_pools
from visir.retrieval.ranks import ranks_of

CARD = EncoderCard("test", "imported")


def items(modality: str, matrices: list[np.ndarray], dtype: Any = np.float32) -> MultiVectorEmbeddings:
    ids = [f"{modality[0]}{i:05}" for i in range(len(matrices))]
    offsets = np.concatenate([[0], np.cumsum([len(matrix) for matrix in matrices])]).astype(np.int64)
    return MultiVectorEmbeddings(modality, pa.array(ids), offsets, np.concatenate(matrices).astype(dtype), CARD)  # type: ignore[arg-type]


def drawn(modality: str, n: int, seed: int, *, most: int = 6, dimension: int = 8, distinct: int = 12) -> Any:
    """Items of few distinct vectors on a grid, so that equal scores are common."""
    rng = np.random.default_rng(seed)
    pool = np.round(rng.standard_normal((distinct, dimension))) + 0.5
    return items(modality, [pool[rng.integers(0, distinct, rng.integers(1, most + 1))] for _ in range(n)])


def reference(queries: MultiVectorEmbeddings, documents: MultiVectorEmbeddings) -> np.ndarray:
    """All scores as defined, pair by pair, in double precision, as float32."""
    scores = np.zeros((len(queries), len(documents)), np.float64)
    for q in range(len(queries)):
        for d in range(len(documents)):
            document = documents.row(d).astype(np.float64)
            for vector in queries.row(q).astype(np.float64):
                scores[q, d] += max(float((vector * other).sum()) for other in document)
    return scores.astype(np.float32)


def test_a_case_by_hand() -> None:
    """q: (1, 0) finds 3 in a and 0 in b; (0, 2) finds 2 in a and 4 in b. Together 5 and 4; and c is a, in two parts."""
    query = items("text", [np.array([[1, 0], [0, 2]])])
    documents = items("image", [np.array([[3, 0], [0, 1]]), np.array([[0, 2]]), np.array([[0, 1], [3, 0], [3, 0]])])
    run = search(query, documents).run
    assert run.answer("t00000") == [("i00000", 5.0), ("i00002", 5.0), ("i00001", 4.0)]
    assert run.provenance["similarity"] == "maxsim" and run.task == "t2i"
    back = search(documents, query).run  # the other way round: the sum is over the vectors of the document
    assert [back.answer(name)[0][1] for name in documents] == [5.0, 4.0, 8.0]


def same_answers(result: Any, scores: np.ndarray, depth: int) -> None:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    np.testing.assert_array_equal(result.run.indices.reshape(len(scores), -1), order)
    np.testing.assert_array_equal(result.run.scores.reshape(order.shape), np.take_along_axis(scores, order, axis=1))


def rank_of(row: np.ndarray, relevant: np.ndarray, place: int, ties: str) -> int:
    tied, earlier = row == row[place], np.arange(len(row)) < place
    before = tied & earlier
    if ties == "pessimistic":
        before = tied & ~relevant | before & relevant
    elif ties == "optimistic":
        before = before & relevant
    return int(1 + (row > row[place]).sum() + before.sum())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.sampled_from([1, 3, 10, 1000]),
    device=st.sampled_from([None, "cpu"]),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_equals_the_reference_in_both_directions_under_every_tie_rule(
    seed: int, depth: int, device: str | None, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(scan, "BLOCK", int(rng.integers(1, 60)))
    monkeypatch.setattr(scan, "ITEMS", int(rng.integers(1, 20)))
    monkeypatch.setattr(scan, "ROWS", int(rng.integers(1, 20)))
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", int(rng.choice([0, 2**30])))
    shape = {"most": int(rng.integers(1, 6)), "dimension": int(rng.integers(1, 9)), "distinct": int(rng.integers(1, 9))}
    texts, images = (
        items(side, list(drawn(side, int(rng.integers(1, 40)), seed + i, **shape).tokens), dtype)
        for i, side in enumerate(("text", "image"))
    )
    positive = rng.random((len(texts), len(images))) < 0.1
    positive[rng.integers(0, len(texts)), rng.integers(0, len(images))] = True
    pairs = [(texts.ids[int(t)].as_py(), images.ids[int(i)].as_py()) for t, i in np.argwhere(positive)]
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    qrels = {"t2i": Qrels.of(left, right), "i2t": Qrels.of(right, left)}
    scores = {"t2i": reference(texts, images), "i2t": reference(images, texts)}
    for ties in ("id", "pessimistic", "optimistic"):
        results = search_both(images, texts, qrels=qrels, depth=depth, ties=ties, device=device)  # type: ignore[arg-type]
        for task, relevant in (("t2i", positive), ("i2t", positive.T)):
            judged = np.flatnonzero(relevant.any(axis=1))
            same_answers(results[task], scores[task][judged], depth)
            expected = [
                sorted(rank_of(scores[task][q], relevant[q], p, ties) for p in np.flatnonzero(relevant[q]))
                for q in judged
            ]
            result = results[task].ranks
            assert result is not None and result.ranks.tolist() == [rank for ranks in expected for rank in ranks]


def unit(modality: str, n: int, seed: int, *, most: int = 20, dimension: int = 64) -> MultiVectorEmbeddings:
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(7).standard_normal((30, dimension))
    matrices = [
        topics[rng.integers(0, 30, rng.integers(1, most + 1))] + 0.3 * rng.standard_normal((1, dimension))
        for _ in range(n)
    ]
    return MultiVectorEmbeddings.of(
        [f"{modality[0]}{i:05}" for i in range(n)], matrices, modality=modality, name="test"  # type: ignore[arg-type]
    ).normalise()  # fmt: skip


def same(one: Any, other: Any) -> bool:
    runs = all(np.array_equal(getattr(one.run, part), getattr(other.run, part)) for part in ("indices", "scores"))
    return runs and np.array_equal(one.ranks.ranks, other.ranks.ranks)


def test_blocks_threads_devices_and_the_order_of_the_input_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, images = unit("text", 60, 1, most=9), unit("image", 200, 2)
    qrels = Qrels.of(np.repeat(texts.ids.to_pylist(), 3), images.ids.to_pylist()[:180])
    plain = search(texts, images, qrels=qrels, depth=20)
    rng = np.random.default_rng(0)
    shuffled = [side.take(rng.permutation(len(side))) for side in (texts, images)]
    assert same(search(*shuffled, qrels=qrels, depth=20), plain)
    assert same(search(texts, images, qrels=qrels, depth=20, device="cpu"), plain)
    part = Gallery.of("image", images.ids.to_pylist()[::3], "every third")
    some = search(texts, images, gallery=part, depth=200).run
    whole = search(texts, images, depth=200).run
    for name in texts.ids.to_pylist()[:9]:
        assert some.answer(name) == [pair for pair in whole.answer(name) if pair[0] in set(part.ids.to_pylist())]  # type: ignore[union-attr]
    assert ranks_of(search(texts, images, depth=200).run, qrels).ranks.tolist() == plain.ranks.ranks.tolist()  # type: ignore[union-attr]
    monkeypatch.setattr(scan, "BLOCK", 57)
    monkeypatch.setattr(scan, "ROWS", 13)
    monkeypatch.setattr("visir.threads.cores", lambda: 3)
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", 0)
    assert same(search(texts, images, qrels=qrels, depth=20), plain)
    monkeypatch.setattr(scan, "ON_DEVICE", 700)
    assert same(search(texts, images, qrels=qrels, depth=20, device="cpu"), plain)


def test_the_precision_that_a_process_chose_for_its_models_changes_nothing() -> None:
    import torch

    texts, images = unit("text", 5, 1), unit("image", 50, 2)
    plain = search(texts, images, depth=50).run.scores
    torch.set_float32_matmul_precision("medium")
    try:
        assert np.array_equal(search(texts, images, depth=50, device="cpu").run.scores, plain)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("device", [None, "cpu"])
def test_scores_bunched_together_are_still_told_apart(device: str | None) -> None:
    """All scores within 1e-5 and many copies: more near-equal scores than a query has room for."""
    rng = np.random.default_rng(5)
    base = rng.standard_normal((3, 16))
    matrices = [base + 1e-7 * rng.standard_normal((3, 16)) for _ in range(300)]
    for copy in rng.choice(300, 90, replace=False):
        matrices[copy] = matrices[7]
    images = items("image", matrices)
    texts = items("text", [rng.standard_normal((4, 16)) for _ in range(6)])
    scores = reference(texts, images)
    qrels = Qrels.of(np.repeat(texts.ids.to_pylist(), 2), ["i00007", "i00200"] * 6)
    result = search(texts, images, depth=10, qrels=qrels, device=device)
    same_answers(result, scores, 10)
    expected = []
    for row in scores:
        relevant = np.isin(np.arange(300), [7, 200])
        expected += sorted(rank_of(row, relevant, place, "id") for place in (7, 200))
    assert result.ranks is not None and result.ranks.ranks.tolist() == expected


def test_the_order_of_a_documents_vectors_changes_no_score() -> None:
    texts, images = unit("text", 10, 3), unit("image", 40, 4)
    rng = np.random.default_rng(0)
    mixed = items("image", [matrix[rng.permutation(len(matrix))] for matrix in images.tokens])
    one, other = (search(texts, side, depth=40).run for side in (images, mixed))
    assert np.array_equal(one.scores, other.scores) and np.array_equal(one.indices, other.indices)


def test_pools_give_a_pair_the_score_of_the_search() -> None:
    texts, images = unit("text", 8, 3), unit("image", 30, 4)
    run = search(texts, images, depth=30).run
    rng = np.random.default_rng(1)
    names, chosen = np.repeat(texts.ids.to_pylist(), 5), rng.choice(images.ids.to_pylist(), 40)
    pairs = sorted(set(zip(names.tolist(), chosen.tolist(), strict=True)))
    pools = Pools.of([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    gallery = Gallery.of("image", images.ids)
    answered = search_pools(texts, images, pools, gallery, task="choice")
    for name in texts:
        candidates = {document for query, document in pairs if query == name}
        if candidates:
            assert answered.answer(name) == [pair for pair in run.answer(name) if pair[0] in candidates]
    assert answered.provenance["similarity"] == "maxsim"


def test_one_vector_each_is_the_dot_product() -> None:
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((20, 12)).astype(np.float32), rng.standard_normal((90, 12)).astype(np.float32)
    several = search(items("text", list(left[:, None])), items("image", list(right[:, None])), depth=90).run
    texts = Embeddings("text", several.queries, left, CARD)
    images = Embeddings("image", several.documents, right, CARD)
    single = search(texts, images, depth=90, similarity="dot").run
    np.testing.assert_allclose(several.scores, single.scores, rtol=1e-6)
    assert np.array_equal(several.indices, single.indices)


def test_faults_are_named() -> None:
    texts, images = unit("text", 3, 3), unit("image", 5, 4)
    with refused(EmbeddingError, "cosine", code="multi-vectors-scored-maxsim") as fault:
        search(texts, images, similarity="cosine")
    assert "normalise the vectors first" in str(fault.value)
    dense = Embeddings.of({"a": [1.0, 2.0]}, modality="text", name="test")
    with refused(EmbeddingError, "test", "multi-vector", "text", "embeddings by test dense", code="not-of-one-space"):
        search(dense, images)
    with refused(EmbeddingError, "cosin", code="not-known") as fault:
        search(dense, dense, similarity="cosin")  # type: ignore[arg-type]
    assert "cosine" in str(fault.value)
    with refused(EmbeddingError, "test", "dense", code="maxsim-compares-several-vectors"):
        search(dense, dense, similarity="maxsim")
    with refused(EmbeddingError, "64", "image", "test", "2", code="not-one-space"):
        search(texts, items("image", [np.ones((2, 2))]))
    with refused(EmbeddingError, "image", "test", "i00001", code="multi-vectors-too-large-float32"):
        search(items("text", [np.ones((1, 2))]), items("image", [np.ones((2, 2)), np.full((1, 2), 2e19)]))
    with refused(EmbeddingError, "text", "t00001", "test", code="scores-too-large-float32"):
        search(items("text", [np.ones((1, 2)), np.full((9, 2), 1e19)]), items("image", [np.full((1, 2), 1e19)]))
    with pytest.raises(EncoderError, match="the device 'cuda:99' cannot be used"):
        search(texts, images, device="cuda:99")
