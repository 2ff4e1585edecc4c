"""Embeddings: what is refused, what is kept."""

from __future__ import annotations

import numpy as np
import pytest

from visir.errors import EmbeddingError
from visir.records import Embeddings, EncoderCard

CARD = EncoderCard("toy", "test")


def made(vectors: np.ndarray, ids: list[str] | None = None) -> Embeddings:
    return Embeddings("image", ids or [f"i{k}" for k in range(len(vectors))], vectors, CARD)  # type: ignore[arg-type]


def test_nan_names_the_ids() -> None:
    vectors = np.ones((4, 2), np.float32)
    vectors[2, 1] = np.nan
    with pytest.raises(EmbeddingError, match="NaN or infinite values in the vectors of 'i2'"):
        made(vectors)


def test_zero_vectors_live_until_a_cosine_is_asked_for() -> None:
    vectors = np.eye(3, dtype=np.float32)
    vectors[1] = 0
    with pytest.raises(EmbeddingError, match="1 image vectors by toy are zero: 'i1'; they have no cosine"):
        made(vectors).normalise()


def test_duplicate_ids_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(EmbeddingError, match="ids repeat: 'a'"):
        made(np.ones((2, 3), np.float32), ["a", "a"])
    with pytest.raises(EmbeddingError, match="3 ids for 2 vectors"):
        made(np.ones((2, 3), np.float32), ["a", "b", "c"])
    with pytest.raises(EmbeddingError, match=r"must be an \(n, d\) matrix of floats"):
        made(np.ones(3, np.float32), ["a", "b", "c"])


def test_select_aligns_by_id_and_names_what_is_missing() -> None:
    embeddings = made(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert embeddings.select(["i2", "i0"]).vectors.tolist() == [[4, 5], [0, 1]]
    with pytest.raises(EmbeddingError, match="no image vector by toy for 1 ids: 'zz'"):
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
