"""Exact search in NumPy: the answers of the compiled loops."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from visir.jit import FEW, CompiledLoop, compiling, pays
from visir.records import Embeddings, EncoderCard, Modality, Qrels, Ties
from visir.retrieval import few, kernels, scan, vectors
from visir.retrieval.exact import search_both
from visir.retrieval.multi_vector import scan as maxsim
from visir.retrieval.sparse import inverted
from visir.retrieval.sparse import scan as sparse_scan


def test_lengths_and_quotients_are_those_of_the_loops() -> None:
    vectors = np.random.default_rng(0).normal(size=(20_000, 37)).astype(np.float32)
    own, compiled = np.empty(len(vectors)), np.empty(len(vectors))
    few.lengths(vectors, own)
    kernels.lengths(vectors, compiled)
    np.testing.assert_allclose(own, compiled, rtol=1e-14)
    other = vectors.copy()
    few.divide_rows(vectors, compiled)
    kernels.divide_rows(other, compiled)
    np.testing.assert_array_equal(vectors, other)


def test_equal_scores_come_in_the_order_of_the_rows() -> None:
    vectors = np.random.default_rng(1).normal(size=(9_000, 12)).astype(np.float32)
    vectors[8_999] *= 10
    vectors[[3, 40, 8_500]] = vectors[8_999]  # in two blocks
    rows, scores = few.best(few.products(vectors[8_999:], vectors), 6)
    assert rows[0, :4].tolist() == [3, 40, 8_500, 8_999]
    assert len(set(scores[0, :4].tolist())) == 1
    assert scores[0, 3] > scores[0, 4] >= scores[0, 5]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_first_search_imports_no_compiler_and_answers_the_same(similarity: str) -> None:
    program = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from visir.records import Embeddings, EncoderCard
from visir.retrieval.dense import FlatIndex

card, numbers = EncoderCard("a", "own", revision="1"), np.random.default_rng(0)
ids = [f"{{row:04}}" for row in range(3_000)]
documents = Embeddings("image", ids, numbers.normal(size=(3_000, 24)).astype(np.float32), card)
queries = Embeddings("text", ids[:20], numbers.normal(size=(20, 24)).astype(np.float32), card)
index = FlatIndex.build(documents, similarity="{similarity}")
first = index.search(queries, 50)
assert "numba" not in sys.modules
import numba
second = FlatIndex.build(documents, similarity="{similarity}").search(queries, 50)
assert (first.indices == second.indices).all() and (first.scores == second.scores).all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_while_a_thread_compiles_the_others_do_without() -> None:
    with compiling():
        assert pays(1, kernels.lengths)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(pays, FEW + 1, CompiledLoop(few.lengths, frozenset())).result()


class Forced:
    """`pays` with a fixed answer, in every module that asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
        for module in (scan, vectors, maxsim, sparse_scan, inverted):
            monkeypatch.setattr(module, "pays", lambda numbers, *loops: answer)


def near_copies(rows: int, seed: int, modality: Modality = "image") -> Embeddings:
    """Vectors of which many are equal, or almost."""
    random = np.random.default_rng(seed)
    some = random.normal(size=(max(rows // 12, 1), 16)).astype(np.float32)
    matrix = some[random.integers(0, len(some), rows)]
    matrix[::3] += random.normal(scale=1e-6, size=matrix[::3].shape).astype(np.float32)
    return Embeddings(modality, [f"{modality[0]}{row:05}" for row in range(rows)], matrix, EncoderCard("a", "imported"))


@pytest.mark.parametrize("ties", ["id", "pessimistic", "optimistic", "trec"])
@pytest.mark.parametrize("rows", [40, 900])
def test_without_the_loops_answers_and_ranks_are_the_same(ties: Ties, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts = near_copies(rows, 1), near_copies(rows // 2, 2, "text")
    owners = np.random.default_rng(3).integers(0, rows, (rows // 2, 2))
    pairs = sorted({(f"t{t:05}", f"i{i:05}") for t, both in enumerate(owners) for i in both})
    judged = {"t2i": Qrels.of(*zip(*pairs, strict=True)), "i2t": Qrels.of(*zip(*[p[::-1] for p in pairs], strict=True))}
    for depth in (1, 7, 30):
        results = []
        for answer in (True, False):
            Forced(monkeypatch, answer)
            results.append(search_both(images, texts, qrels=judged, depth=min(depth, rows // 2), ties=ties))
        for task in judged:
            first, second = results[0][task], results[1][task]
            np.testing.assert_array_equal(first.run.indices, second.run.indices)
            np.testing.assert_array_equal(first.run.scores, second.run.scores)
            assert first.ranks is not None and second.ranks is not None
            np.testing.assert_array_equal(first.ranks.ranks, second.ranks.ranks)


def test_a_search_of_few_vectors_waits_for_no_thread_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("other threads are used")

    monkeypatch.setattr(vectors, "spread", refuse)
    monkeypatch.setattr(vectors, "pays", lambda numbers, *loops: False)
    card, rows = EncoderCard("a", "own", revision="1"), np.eye(3, dtype=np.float32)
    side = vectors.Side(Embeddings("image", ["0", "1", "2"], 2 * rows, card), np.arange(3), "cosine")
    np.testing.assert_array_equal(side.block(0, 3), rows)
