"""Exact search in NumPy: the answers of the compiled loops."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from visir.jit import FEW, compiling, pays
from visir.records import Embeddings, EncoderCard
from visir.retrieval import few, kernels, vectors


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
    before = pays(1)
    with compiling():
        assert pays(1)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(pays, 1).result()
            assert pool.submit(pays, FEW + 1).result()
    assert pays(1) == before


def test_a_search_of_few_vectors_waits_for_no_thread_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("other threads are used")

    monkeypatch.setattr(vectors, "spread", refuse)
    monkeypatch.setattr(vectors, "pays", lambda numbers, *loops: False)
    card, rows = EncoderCard("a", "own", revision="1"), np.eye(3, dtype=np.float32)
    side = vectors.Side(Embeddings("image", ["0", "1", "2"], 2 * rows, card), np.arange(3), "cosine")
    np.testing.assert_array_equal(side.block(0, 3), rows)
