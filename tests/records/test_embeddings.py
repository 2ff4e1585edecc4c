"""Embeddings: what is refused, what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch

from refusals import refused
from visir.errors import CollectionError, EmbeddingError
from visir.records import Embeddings, EncoderCard, strings

CARD = EncoderCard("toy", "test")


def made(vectors: np.ndarray, ids: list[str] | None = None) -> Embeddings:
    return Embeddings("image", ids or [f"i{k}" for k in range(len(vectors))], vectors, CARD)  # type: ignore[arg-type]


def test_nan_names_the_ids() -> None:
    vectors = np.ones((4, 2), np.float32)
    vectors[2, 1] = np.nan
    with refused(EmbeddingError, "i2", code="nan-infinite-values-vectors"):
        made(vectors)


def test_zero_vectors_live_until_a_cosine_is_asked_for() -> None:
    vectors = np.eye(3, dtype=np.float32)
    vectors[1] = 0
    with refused(EmbeddingError, "1", "image", "toy", "i1", code="no-cosine"):
        made(vectors).normalise()


def test_duplicate_ids_and_wrong_shapes_are_refused() -> None:
    with refused(EmbeddingError, "a", code="ids-repeat"):
        made(np.ones((2, 3), np.float32), ["a", "a"])
    with refused(EmbeddingError, "3", "2", code="ids-vectors", hint=False):
        made(np.ones((2, 3), np.float32), ["a", "b", "c"])
    with refused(EmbeddingError, code="vectors-matrix-floats-not", hint=False):
        made(np.ones(3, np.float32), ["a", "b", "c"])


@pytest.mark.parametrize(
    "given",
    [
        ({"a": [3, 4], "b": [0, 2]},),
        ({"a": torch.tensor([3.0, 4.0], requires_grad=True), "b": torch.tensor([0.0, 2.0])},),
        (["a", "b"], np.array([[3, 4], [0, 2]])),
        (["a", "b"], torch.tensor([[3, 4], [0, 2]], dtype=torch.bfloat16)),
        ((np.array(["a", "b"]), [np.array([3.0, 4.0]), np.array([0.0, 2.0])]),),
        (["a", "b"], scipy.sparse.csr_matrix([[3.0, 4.0], [0.0, 2.0]])),
        (pa.array(["a", "b"]), pd.Series([[3, 4], [0, 2]])),
        (pd.Series(["a", "b"]), pd.Series([np.array([3, 4]), np.array([0, 2])])),
    ],
    ids=["lists", "tensors", "matrix", "bfloat16", "pair", "sparse", "series of lists", "series of arrays"],
)
def test_own_vectors(given: tuple[object, ...]) -> None:
    embeddings = Embeddings.of(*given, modality="text", name="mine")
    assert np.asarray(embeddings).tolist() == [[3.0, 4.0], [0.0, 2.0]] and embeddings.vectors.dtype.kind == "f"
    assert list(embeddings) == ["a", "b"] and embeddings["b"].tolist() == [0.0, 2.0]
    assert (embeddings.modality, embeddings.encoder.name) == ("text", "mine")
    assert np.asarray(embeddings, np.float64).dtype == np.float64


def test_own_vectors_that_are_none() -> None:
    with refused(EmbeddingError, "ndarray", code="without-ids-no-set") as error:
        Embeddings.of(np.eye(2))
    assert "Embeddings.of(['a.jpg', …], matrix)" in str(error.value)
    with refused(EmbeddingError, code="no-vectors-numbers-one"):
        Embeddings.of({"a": [1, 2], "b": [1]})
    with refused(EmbeddingError, "unequal shapes", "2", "others"):
        Embeddings.of({"a": np.zeros(2), "b": np.zeros(1)})
    with refused(EmbeddingError, "<U1"):
        Embeddings.of({"a": ["x", "y"]})
    with refused(EmbeddingError, "1", "2", code="ids-vectors", hint=False):
        Embeddings.of(["a"], np.eye(2))
    with refused(EmbeddingError, "float64", "2", code="vectors-matrix-floats-not", hint=False):
        Embeddings.of({"a": 1.0, "b": 2.0})


def test_select_aligns_by_id_and_names_what_is_missing() -> None:
    embeddings = made(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert embeddings.select(["i2", "i0"]).vectors.tolist() == [[4, 5], [0, 1]]
    with refused(EmbeddingError, "image vector by toy", "1 id", "zz", code="vectors-missing"):
        embeddings.select(["i0", "zz"])


def test_normalise_gives_unit_float32_and_does_not_touch_the_original() -> None:
    vectors = np.array([[3.0, 4.0]], np.float16)
    embeddings = made(vectors)
    unit = embeddings.normalise()
    assert unit.normalised
    assert unit.vectors.dtype == np.float32
    np.testing.assert_allclose(unit.vectors, [[0.6, 0.8]], rtol=1e-7)
    assert embeddings.vectors.tolist() == [[3.0, 4.0]]


def test_a_cards_fingerprint_changes_with_any_field() -> None:
    base = EncoderCard("m", "f", image_preprocessing={"size": 224})
    assert base.fingerprint == EncoderCard("m", "f", image_preprocessing={"size": 224}).fingerprint
    assert base.fingerprint != EncoderCard("m", "f", image_preprocessing={"size": 384}).fingerprint
    assert base.fingerprint != EncoderCard("m", "f", revision="2", image_preprocessing={"size": 224}).fingerprint


def test_the_same_weights_under_another_name_are_the_same_model() -> None:
    card = EncoderCard("runs/a", "onnx", weights="w1", image_preprocessing={"size": 64}, text_preprocessing={"max": 77})
    moved = replace(card, name="runs/b")
    assert card.is_same_model(moved)
    assert card.differences(moved) == []
    assert card.identity() == moved.identity()
    assert card.identity("text") == {
        "family": "onnx", "revision": None, "weights": "w1", "text_preprocessing": {"max": 77}, "dtype": "float32"
    }  # fmt: skip


def test_without_weights_on_both_sides_the_name_decides() -> None:
    known, unknown = EncoderCard("clip", "test", weights="w1"), EncoderCard("clip", "test")
    assert known.is_same_model(unknown)
    assert unknown.is_same_model(known)
    assert unknown.identity()["name"] == "clip"
    assert unknown.differences(replace(known, name="other")) == ["name"]
    assert known.differences(replace(known, weights="w2")) == ["weights"]


def test_another_preprocessing_is_a_difference_of_its_modality_alone() -> None:
    card = EncoderCard("clip", "test", weights="w1", text_preprocessing={"template": "{}"})
    other = replace(card, text_preprocessing={"template": "a photo of {}"})
    assert card.is_same_model(other)
    assert card.differences(other) == card.differences(other, "text") == ["text_preprocessing"]
    assert card.differences(other, "image") == []
    assert card.identity("image") == other.identity("image")
    assert card.identity() != other.identity()


def test_more_ids_than_a_record_holds_are_refused_with_the_way_on() -> None:
    size = 2**31 + 10  # the pages of these zeros are never touched
    offsets, data = pa.py_buffer(np.array([0, size], np.int64)), pa.py_buffer(np.zeros(size, np.uint8))
    with refused(CollectionError, "1", "too large", code="ids-texts"):
        strings(pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, data]))
    assert strings(pa.array(["a"], pa.large_string())).type == pa.string()
