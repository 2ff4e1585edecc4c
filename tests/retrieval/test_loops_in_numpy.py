"""What loops of text search and of residual codes do in NumPy: the same, to the bit, without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from visir.retrieval.multi_vector import compression
from visir.retrieval.multi_vector.compression import CompressedVectors, ResidualCodec
from visir.retrieval.text import index as text_index
from visir.retrieval.text import kernels, words
from visir.retrieval.text.index import TextIndex
from visir.retrieval.text.words import Spelling

LETTERS = [*"abcdeé"]


def drawn_words(rng: np.random.Generator, n: int) -> list[str]:
    return sorted({"".join(rng.choice(LETTERS, rng.integers(1, 9))) for _ in range(n)})


@pytest.mark.parametrize("seed", range(3))
def test_words_near_a_misspelt_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = drawn_words(rng, 800)
    packed = Spelling(known, np.ones(len(known), np.int64))._packed
    counts = set()
    for word in drawn_words(rng, 60):
        codes = words._codes(word)
        mark = np.bitwise_or.reduce(words._marks(codes))
        for most in (1, 2):
            compiled, plain = (near(codes, mark, *packed, most) for near in (kernels.near, kernels.near_in_numpy))
            for one, other in zip(compiled, plain, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype
            counts |= {*compiled[1].tolist()}
    assert counts == {0, 1, 2}


def test_an_exchange_of_neighbours_is_one_step() -> None:
    packed = Spelling(["dress", "dresses", "press"], np.ones(3, np.int64))._packed
    codes = words._codes("drses")
    mark = np.bitwise_or.reduce(words._marks(codes))
    assert [part.tolist() for part in kernels.near_in_numpy(codes, mark, *packed, 2)] == [[0, 1, 2], [1, 2, 2]]


def test_answers_of_a_text_index(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    vocabulary = drawn_words(rng, 200)
    texts = {
        field: [" ".join(rng.choice(vocabulary, rng.integers(0, 9))) for _ in range(400)] for field in ("name", "text")
    }
    ids = [f"d{row:03}" for row in range(400)]
    queries = [" ".join(rng.choice(vocabulary, rng.integers(1, 5))) for _ in range(40)] + ['"' + texts["name"][3] + '"']
    answers: list[list[Any]] = []
    for compiled in (True, False):
        for module in (text_index, words):
            monkeypatch.setattr(module, "pays", lambda numbers, *loops, compiled=compiled: compiled)
        index = TextIndex.build(ids, texts)
        answers.append([index.search(query, 30) for query in queries])
    assert answers[0] == answers[1] and sum(len(answer.ids) for answer in answers[0]) > 400


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("unit", [True, False])
def test_residual_codes(bits: int, unit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(bits)
    vectors = rng.normal(size=(300, 13)).astype(np.float32)
    if unit:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codec = ResidualCodec.trained(vectors, bits)
    assert codec.unit == unit
    made = []
    for compiled in (True, False):
        monkeypatch.setattr(compression, "pays", lambda numbers, *loops, compiled=compiled: compiled)
        codes = codec.encode(vectors).codes
        made.append((codes, np.asarray(CompressedVectors(codec, codes))))
    np.testing.assert_array_equal(made[0][0], made[1][0])
    np.testing.assert_array_equal(made[0][1], made[1][1])


def test_a_vector_of_zeros_stays_one() -> None:
    codec = ResidualCodec(np.zeros((1, 4), np.float32), np.array([0, 1], np.float32), unit=True)
    out = np.ones((1, 4), np.float32)
    compression._unpack_in_numpy(np.zeros((1, codec.width), np.uint8), codec.centroids, codec.steps, 1, True, out)
    assert not out.any()
