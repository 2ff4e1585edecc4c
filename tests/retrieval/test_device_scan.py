"""Exact search on a device of torch: the answers, scores and ranks of the cores, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_data import dense, random_dense, random_sparse, same_run

import fake_cuda
from refusals import refused
from visir.errors import EmbeddingError, EncoderError
from visir.records import Gallery, Qrels
from visir.retrieval import open_index
from visir.retrieval import scan as device_ranks
from visir.retrieval.exact import SearchResult, search, search_both
from visir.retrieval.kinds import build_index

TIES: tuple[Any, ...] = ("id", "pessimistic", "optimistic", "trec")


@pytest.fixture(autouse=True)
def the_device_is_used_for_few_vectors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.retrieval.scan.FEW", 0)


def assert_same(found: SearchResult, expected: SearchResult) -> None:
    assert np.array_equal(found.run.indices, expected.run.indices)
    assert np.array_equal(found.run.scores.view(np.uint32), expected.run.scores.view(np.uint32))
    if expected.ranks is not None:
        assert found.ranks is not None and np.array_equal(found.ranks.ranks, expected.ranks.ranks)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """How many queries were searched on the device in each round, and how many candidates each kept."""
    seen: list[tuple[int, int]] = []
    search_once = device_ranks._search

    def noted(on: Any, state: Any, *given: Any, **more: Any) -> Any:
        seen.append((len(state), state.keys.shape[1]))
        return search_once(on, state, *given, **more)

    monkeypatch.setattr(device_ranks, "_search", noted)
    return seen


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    distinct=st.integers(1, 40),
    depth=st.sampled_from([1, 3, 10, 1000]),
    similarity=st.sampled_from(["cosine", "dot"]),
    ties=st.sampled_from(TIES),
)
def test_both_directions_are_those_of_the_cores_whatever_the_blocks(
    seed: int, distinct: int, depth: int, similarity: Any, ties: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are drawn from few, so that ties are common; blocks, groups and rounds are small."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(device_ranks, "COLUMNS", int(rng.integers(1, 60)))
    monkeypatch.setattr(device_ranks, "PRODUCTS", int(rng.integers(1, 900)))
    monkeypatch.setattr(device_ranks, "QUERIES", int(rng.integers(1, 5000)))
    monkeypatch.setattr(device_ranks, "DEEPEST", int(rng.choice([1, 200, 2**12])))
    monkeypatch.setattr(device_ranks, "COMPARED", int(rng.integers(1, 300)))
    pool = rng.standard_normal((distinct, int(rng.choice([1, 3, 17, 64])))).astype(np.float32)
    if rng.random() < 0.5:
        pool = np.round(pool) + np.float32(0.5)  # values on a grid: equal scores of unequal vectors
    images = dense("image", pool[rng.integers(0, distinct, rng.integers(1, 90))])
    texts = dense("text", pool[rng.integers(0, distinct, rng.integers(1, 130))])
    positive = rng.random((len(texts), len(images))) < 0.1
    positive[rng.integers(0, len(texts)), rng.integers(0, len(images))] = True
    text, image = np.nonzero(positive)
    left, right = texts.ids.take(text), images.ids.take(image)
    more: dict[str, Any] = {
        "qrels": {"t2i": Qrels.of(left, right), "i2t": Qrels.of(right, left)},
        "depth": depth,
        "similarity": similarity,
        "ties": ties,
    }
    expected = search_both(images, texts, **more)
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", int(rng.choice([0, 2**30])))
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", int(rng.choice([0, 2**30])))
    found = search_both(images, texts, **more, device="cpu")
    for task, one in expected.items():
        assert_same(found[task], one)


def test_a_part_of_the_queries_and_of_the_gallery() -> None:
    texts, images = random_dense("text", 50, 1), random_dense("image", 200, 2)
    some = Gallery.of("image", images.ids.to_pylist()[::3], "every third")
    qrels = Qrels.of(texts.ids.to_pylist()[10:40:7], images.ids.to_pylist()[3:18:3])
    for chosen in (None, qrels):
        expected = search(texts, images, gallery=some, depth=20, qrels=chosen)
        assert_same(search(texts, images, gallery=some, depth=20, qrels=chosen, device="cpu"), expected)


def test_scores_too_close_to_tell_are_asked_for_deeper(rounds: list[tuple[int, int]]) -> None:
    """Of 3,000 candidates 300 are within 1e-5 of each other and above all others; 29 are kept at first, for depth 12.

    In double precision the next 232 tell them apart. The 9 copies of the best end in order of their ids.
    """
    rng = np.random.default_rng(5)
    away = rng.standard_normal((3000, 64))
    near = rng.permutation(3000)[:300]
    away[near] = 1 + rng.standard_normal((300, 64)) * 2e-3
    away[near[:9]] = away[near[0]]
    images, texts = dense("image", away.astype(np.float32)), dense("text", np.ones((20, 64), np.float32))
    expected = search(texts, images, depth=12)
    rounds.clear()
    assert_same(search(texts, images, depth=12, device="cpu"), expected)
    assert rounds == [(20, 29), (20, 232)]


@pytest.mark.parametrize("ties", TIES)
def test_more_copies_than_are_ever_kept(rounds: list[tuple[int, int]], ties: Any) -> None:
    """A collapsed encoder: all scores tie, and the cores decide by id, as ever."""
    images, texts = dense("image", np.ones((9000, 16))), dense("text", np.ones((3, 16)))
    qrels = Qrels.of(["t0000", "t0001", "t0001"], ["i0700", "i0003", "i8999"])
    expected = search(texts, images, depth=10, qrels=qrels, ties=ties)
    found = search(texts, images, depth=10, qrels=qrels, ties=ties, device="cpu")
    assert_same(found, expected)
    assert rounds == [(2, 27), (2, 216), (2, 1728)]  # the next would be 13,824
    assert found.run.answer("t0000", 2) == [("i0000", 1.0), ("i0001", 1.0)]


def test_ranks_among_scores_that_are_close_are_counted_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_ranks, "COLUMNS", 512)
    many: list[bool] = []
    count = device_ranks.DeviceRanks.count

    def noted(self: device_ranks.DeviceRanks, *given: Any) -> bool:
        many.append(count(self, *given))
        return many[-1]

    monkeypatch.setattr(device_ranks.DeviceRanks, "count", noted)
    rng = np.random.default_rng(5)
    images = dense("image", 1 + rng.standard_normal((3000, 64)) * 0.015)
    texts = dense("text", 1 + rng.standard_normal((40, 64)) * 0.015)
    qrels = Qrels.of(np.repeat(texts.ids.to_pylist(), 9), images.ids.to_pylist()[:360])
    found = search(texts, images, qrels=qrels, device="cpu")
    assert many[:6] == [True] + [False] * 5  # after the first block hardly one is too close to tell
    assert_same(found, search(texts, images, qrels=qrels))


def test_the_precision_that_a_process_chose_for_its_models_changes_nothing() -> None:
    texts, images = random_dense("text", 5, 1), random_dense("image", 300, 2)
    plain = search(texts, images, depth=50)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_same(search(texts, images, depth=50, device="cpu"), plain)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("room", [0, 2**30])
def test_an_index_keeps_its_vectors_on_the_device_where_they_fit(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", room)
    documents, queries = random_dense("image", 700, 1), random_dense("text", 30, 2)
    index = build_index(documents.take(np.arange(300)), "exact")
    index.add(documents.take(np.arange(300, 700)))
    index.delete(["i0005"])
    expected = index.search(queries, 20)
    for _ in range(2):
        assert same_run(index.search(queries, 20, device="cpu"), expected)
    sides = index._state.rows.prepared.values()
    assert sides and all(bool(side.on_devices) == (room > 0) for side in sides)
    always = build_index(documents, "exact", device="cpu")
    assert always.settings.device == "cpu" and len(always.search(queries, 20)) == 30


def test_on_a_gpu_that_answers_nonsense_nothing_undecided_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value read from the fake GPU is 1: no candidate is better than another, so the cores search again."""
    texts, images = random_dense("text", 9, 1), random_dense("image", 3000, 2)
    plain = search(texts, images, depth=10)
    with fake_cuda.gpu(monkeypatch) as mode, mode:
        found = search(texts, images, depth=10, device="cuda")
        assert mode.operations > 0
        qrels = Qrels.of(texts.ids, images.ids.to_pylist()[:9])
        search(texts, images, depth=10, qrels=qrels, device="cuda")  # no tensor of it stays on the CPU
    assert_same(found, plain)


def test_an_index_made_for_a_gpu_says_how_it_is_searched_without(tmp_path: Path) -> None:
    documents, queries = random_dense("image", 6000, 1), random_dense("text", 500, 2)  # few need no device
    build_index(documents, "exact", device="cuda:99").save(tmp_path / "index")
    index = open_index(tmp_path / "index")
    expected = build_index(documents, "exact").search(queries, 20)
    with pytest.raises(EncoderError, match=r"'cuda:99' cannot be used(.|\n)*--set device= \(device=\"\" in Python\)"):
        index.search(queries, 20)
    assert same_run(index.search(queries, 20, device=""), expected)


def test_few_vectors_need_no_device_but_its_name_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.retrieval.scan.pays", lambda numbers, *loops: False)  # as before numba is imported
    monkeypatch.setattr("visir.retrieval.scan.FEW", 2**25)
    documents, queries = random_dense("image", 50, 1), random_dense("text", 5, 2)
    with pytest.raises(
        EncoderError, match=r"'cudaa' cannot be used: there is no such kind of device(.|\n)*--set device="
    ):
        build_index(documents, "exact", device="cudaa").search(queries, 3)
    expected = build_index(documents, "exact").search(queries, 3)
    assert same_run(build_index(documents, "exact", device="cpu").search(queries, 3), expected)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.filterwarnings("error")
def test_products_near_the_end_of_float32(ties: Any) -> None:
    """Scores whose differences are no float32 any more are compared all the same, without a warning."""
    rng = np.random.default_rng(63)
    away = rng.standard_normal((60, 3))
    longest = (away / np.linalg.norm(away, axis=1, keepdims=True) * 1.79e19).astype(np.float32)
    images, texts = dense("image", longest[:50]), dense("text", longest[10:])
    qrels = Qrels.of(texts.ids, images.ids)
    expected = search(texts, images, depth=50, similarity="dot", qrels=qrels, ties=ties)
    assert_same(search(texts, images, depth=50, similarity="dot", qrels=qrels, ties=ties, device="cpu"), expected)


def test_devices_that_are_refused() -> None:
    texts, images = random_dense("text", 2, 1), random_dense("image", 5, 2)
    with pytest.raises(EncoderError, match=r"the device 'cuda:99' cannot be used(.|\n)*on the cores"):
        search(texts, images, device="cuda:99")
    with pytest.raises(EncoderError, match="openvino compiles models; it cannot search"):
        search(texts, images, device="openvino")
    words = random_sparse("text", 2, 1), random_sparse("image", 5, 2)
    with refused(EmbeddingError, "test", "cpu", code="sparse-vectors-searched-cores"):
        search(*words, device="cpu")
