"""Multi-vector embeddings: what is refused, by name, and what a selection keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import EncoderCard, MultiVectorEmbeddings, TokenVectors, Vectors

CARD = EncoderCard("toy", "test")


def made(**changes: Any) -> MultiVectorEmbeddings:
    """a: two vectors; b: one; c: one."""
    values: dict[str, Any] = {
        "modality": "image",
        "ids": ["a", "b", "c"],
        "offsets": np.array([0, 2, 3, 4]),
        "vectors": np.array([[1, 0], [0, 1], [3, 4], [0, 2]], np.float32),
        "encoder": CARD,
    }
    return MultiVectorEmbeddings(**{**values, **changes})


def test_the_vectors_of_an_id() -> None:
    images = made()
    assert (len(images), images.dimension, images.counts.tolist()) == (3, 2, [2, 1, 1])
    assert images["a"].tolist() == images.row(0).tolist() == [[1, 0], [0, 1]] and list(images) == ["a", "b", "c"]
    assert images.rows(["c", "a"]).tolist() == [2, 0]
    assert images.select(["c", "a"]).vectors.tolist() == [[0, 2], [1, 0], [0, 1]]
    assert isinstance(images, Vectors)
    assert len(MultiVectorEmbeddings("text", [], np.array([0]), np.empty((0, 4), np.float16), CARD)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": np.ones((4, 2))}, r"must be an \(m, d\) matrix of float16 or float32, not float64 \(4, 2\)"),
        ({"vectors": np.ones(4, np.float32)}, r"not float32 \(4,\)"),
        ({"offsets": np.array([0, 2, 3, 5])}, r"offsets \(int64 \(4,\)\) do not fit 3 items and 4 vectors"),
        ({"offsets": np.array([1, 2, 3, 4])}, "do not fit 3 items"),
        ({"offsets": np.array([0, 2, 4])}, "do not fit 3 items"),
        ({"offsets": np.array([0, 2, 3, 4], np.int32)}, r"offsets \(int32 \(4,\)\) do not fit"),
        ({"offsets": np.array([0, 2, 2, 4])}, "no vector for 'b'"),
        ({"offsets": np.array([0, 3, 2, 4])}, "no vector for 'b'"),
        ({"ids": ["a", "b", "a"]}, "ids repeat: 'a'"),
        (
            {"vectors": np.array([[1, 0], [np.nan, 1], [3, 4], [0, np.inf]], np.float32)},
            "NaN or infinite values in the vectors of 'a', 'c'",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        made(**changes)


def test_many_bad_ids_are_named_in_part() -> None:
    vectors = np.full((7, 2), np.nan, np.float16)
    with refused(EmbeddingError, "0", "1", "2", "3", "4", "others", code="nan-infinite-values"):
        made(ids=list("0123456"), offsets=np.arange(8), vectors=vectors)


def test_bad_vectors_are_found_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.records.vectors._BLOCK", 1)
    vectors = np.array([[1, 0], [np.nan, 1], [3, 4], [0, np.inf]], np.float32)
    with refused(EmbeddingError, "a", "c", code="nan-infinite-values"):
        made(vectors=vectors)


@pytest.mark.parametrize(
    "items",
    [
        ({"a": [[1, 0], [0, 1]], "b": [[3, 4]]},),
        ({"a": torch.eye(2, requires_grad=True), "b": torch.tensor([[3.0, 4.0]])},),
        (["a", "b"], [np.eye(2), np.array([[3, 4]])]),
        (["a", "b"], [torch.eye(2, dtype=torch.bfloat16), torch.tensor([[3, 4]])]),
        ((pa.array(["a", "b"]), pd.Series([np.eye(2), np.array([[3, 4]])])),),
        (["a", "b"], TokenVectors.of([np.eye(2), np.array([[3, 4]])])),
    ],
    ids=["lists", "tensors", "arrays", "bfloat16", "pair of series", "token vectors"],
)
def test_own_vectors(items: tuple[object, ...]) -> None:
    texts = MultiVectorEmbeddings.of(*items, modality="text", name="mine")
    assert texts.vectors.tolist() == [[1, 0], [0, 1], [3, 4]] and texts.offsets.tolist() == [0, 2, 3]
    assert (texts.modality, texts.encoder.name, texts.vectors.dtype) == ("text", "mine", np.float32)


def test_one_array_of_all_items_keeps_half_precision() -> None:
    cube = np.arange(12).reshape(2, 3, 2)
    for items in (cube.astype(np.float16), torch.tensor(cube, dtype=torch.float16)):
        tokens = TokenVectors.of(items)
        assert tokens.vectors.dtype == np.float16 and tokens.offsets.tolist() == [0, 3, 6]
        assert tokens[1].tolist() == tokens[-1].tolist() == cube[1].tolist()
    mixed = TokenVectors.of([cube[0].astype(np.float16), cube[1].astype(np.float64)])
    assert mixed.vectors.dtype == np.float32
    assert TokenVectors.of(mixed) is mixed


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"a": [[1, 2], [3]]}, "item 0 is no matrix of numbers"),
        ({"a": [1, 2]}, r"item 0 is no \(t, d\) matrix of numbers: int64 \(2,\)"),
        ({"a": [["x", "y"]]}, r"item 0 is no \(t, d\) matrix of numbers: <U1 \(1, 2\)"),
        ({"a": np.ones((2, 2)), "b": np.empty((0, 2))}, r"item 1 is no \(t, d\) matrix of numbers: float64 \(0, 2\)"),
        ({"a": np.ones((2, 2)), "b": np.ones((1, 3))}, "item 1 has vectors of 3 numbers, item 0 of 2"),
        ({}, "no items, so their vectors have no length"),
        ((["a"], np.ones((2, 3, 4))), "do not fit 1 items and 6 vectors"),
        (np.ones((2, 3, 4)), "a ndarray without ids is no set of vectors"),
    ],
)
def test_own_vectors_that_are_none(items: object, message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        MultiVectorEmbeddings.of(items)


def test_normalise_gives_unit_float32_and_names_what_is_zero() -> None:
    half = made(vectors=np.array([[1, 0], [0, 1], [3, 4], [0, 2]], np.float16))
    unit = half.normalise()
    np.testing.assert_allclose(unit["b"], [[0.6, 0.8]], rtol=1e-7)
    assert unit.vectors.dtype == np.float32 and half["b"].tolist() == [[3, 4]]
    zeros = made(vectors=np.array([[1, 0], [0, 0], [3, 4], [0, 0]], np.float32))
    with refused(EmbeddingError, "2 vectors", "2 image items", "toy", "a", "c", code="embedding-no-cosine"):
        zeros.normalise()


def test_parts_are_joined_and_taken() -> None:
    first, second = TokenVectors.of([np.eye(2), [[3, 4]]]), TokenVectors.of([[[5, 6]]])
    joined = TokenVectors.concatenate([first, second])
    assert joined.offsets.tolist() == [0, 2, 3, 4] and [len(item) for item in joined] == [2, 1, 1]
    assert joined.take(np.array([2, 0])).vectors.tolist() == [[5, 6], [1, 0], [0, 1]]
    with refused(EmbeddingError, "2", "2", "3", code="parts-vectors-numbers-cannot", hint=False):
        TokenVectors.concatenate([first, TokenVectors.of(np.ones((1, 1, 3)))])
    with refused(EmbeddingError, "0", "no", code="parts-vectors-numbers-cannot", hint=False):
        TokenVectors.concatenate([])
    with pytest.raises(IndexError):
        joined[3]


def test_how_they_look() -> None:
    assert repr(made()) == (
        "MultiVectorEmbeddings(3 image multi-vectors, 1.3 vectors each, 2 dimensions, float32)\n"
        "  ids: a, b, c\n  by toy (test)"
    )
    assert repr(made().tokens) == "TokenVectors(3 items)\n  1.3 vectors each, 2 dimensions, float32"
    page = made()._repr_html_() or ""
    assert "3 image multi-vectors" in page and "1.3 vectors each" in page and "by toy" in page
    table = made().to_arrow()
    assert table["vectors"].to_pylist()[:2] == [[[1, 0], [0, 1]], [[3, 4]]] and table["id"].to_pylist() == [*"abc"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_selections_keep_the_vectors_of_each_id(counts: list[int], data: st.DataObject) -> None:
    drawn = np.random.default_rng(0).standard_normal((sum(counts), 3)).astype(np.float16)
    ids = [f"i{index}" for index in range(len(counts))]
    matrices = np.split(drawn, np.cumsum(counts)[:-1])
    texts = MultiVectorEmbeddings.of(ids, matrices, modality="text")
    some = data.draw(st.lists(st.sampled_from(ids), unique=True))
    selected = texts.select(some)
    assert list(selected) == some and selected.offsets[-1] == len(selected.vectors)
    for name in some:
        np.testing.assert_array_equal(selected[name], matrices[ids.index(name)])
