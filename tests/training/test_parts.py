"""The small parts: batches and validation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from visir.encoders.towers.base import Inputs
from visir.evaluation.measures import measure
from visir.records import Embeddings, EncoderCard, Qrels
from visir.retrieval.exact import search_both
from visir.training.inputs import VectorSource
from visir.training.learner import encode_source, validate
from visir.training.processes import batches_of_epoch, steps_per_epoch


@given(st.integers(1, 300), st.integers(2, 64), st.integers(0, 5), st.integers(0, 5))
def test_every_caption_once_in_batches_of_nearly_one_size(captions: int, size: int, seed: int, epoch: int) -> None:
    batches = batches_of_epoch(captions, size, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(captions))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= size and max(sizes) - min(sizes) <= 1
    assert len(batches) == steps_per_epoch(captions, size)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(batches_of_epoch(50, 8, seed=seed, epoch=epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_validation_by_hand() -> None:
    # Two images on the axes; captions: c0 of image 0 finds it, c1 of image 0 lies nearer to image 1, c2 of image 1.
    images = np.eye(2, dtype=np.float32)
    texts = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], np.float32)
    found = validate(images, texts, np.array([0, 0, 1]))
    assert found["t2i hit@1"] == pytest.approx(200 / 3)  # c1 ranks its image second
    assert found["t2i hit@5"] == 100.0
    assert found["i2t hit@1"] == 100.0  # image 0 by c0 (1.0 > 0.6), image 1 by c2 (1.0 > 0.8)
    assert found["rsum"] == pytest.approx(500 + 200 / 3)


def test_validation_is_what_search_and_the_measures_say() -> None:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 3)
    images = rng.normal(size=(40, 6)).astype(np.float32)
    texts = (images[owners] + 2.0 * rng.normal(size=(120, 6))).astype(np.float32)
    card = EncoderCard("random", "test")
    ids = pa.array([f"i{row:02}" for row in range(40)]), pa.array([f"c{row:03}" for row in range(120)])
    image = Embeddings("image", ids[0], images, card).normalise()
    text = Embeddings("text", ids[1], texts, card).normalise()
    pairs = ids[0].take(pa.array(owners))
    qrels = {"i2t": Qrels.of(pairs, ids[1]), "t2i": Qrels.of(ids[1], pairs)}
    found = validate(image.vectors, text.vectors, owners)
    names = ["hit@1", "hit@5", "hit@10"]
    for direction, searched in search_both(image, text, qrels=qrels, ties="pessimistic").items():
        table = measure(searched.ranks, names)
        for name in names:
            assert found[f"{direction} {name}"] == pytest.approx(100 * pc.mean(table[name]).as_py())
            assert 5 < found[f"{direction} {name}"] < 100  # neither trivial nor hopeless


def test_a_collapsed_or_broken_space_scores_nothing() -> None:
    point = np.zeros((30, 3), np.float32)
    point[:, 0] = 1
    assert validate(point, point, np.arange(30))["rsum"] == 0.0
    assert validate(point * np.nan, point, np.arange(30))["rsum"] == 0.0


def test_an_image_without_captions_is_a_candidate_only() -> None:
    images = np.array([[1, 0], [0, 1], [0.8, 0.6]], np.float32)
    found = validate(images, np.array([[0.9, 0.5]], np.float32) / np.sqrt(1.06), np.array([0]))
    # The caption is nearer to the third image (0.9·0.8 + 0.5·0.6 = 1.02) than to its own (0.9).
    assert found["t2i hit@1"] == 0.0 and found["t2i hit@5"] == 100.0
    assert found["i2t hit@1"] == 100.0


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(30), 2)
    images, texts = rng.normal(size=(30, 5)).astype(np.float32), rng.normal(size=(60, 5)).astype(np.float32)
    whole = validate(images, texts, owners)
    monkeypatch.setattr("visir.training.learner.SCORES", 70)  # one query of 60 candidates, two of 30
    assert validate(images, texts, owners) == whole


def test_a_source_is_encoded_in_blocks_in_order() -> None:
    source = VectorSource(np.arange(1400, dtype=np.float32).reshape(2, 700, 1))
    seen: list[int] = []

    def vectors_of(inputs: Inputs) -> Tensor:
        assert isinstance(inputs, Tensor)
        seen.append(len(inputs))
        return inputs + 1

    # The mean of the two views, i and 700 + i, and 1.
    assert encode_source(source, vectors_of)[:, 0].tolist() == [350.0 + i + 1 for i in range(700)]
    assert len(seen) == 6 and max(seen) <= 128
