"""Sparse encoders of sentence-transformers against `SparseEncoder.encode_query` and `encode_document`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
from sentence_transformers import SparseEncoder

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders import encode_detailed, encode_items
from visir.encoders.loading import load
from visir.errors import EncoderError
from visir.records import Items, Qrels, Role, SparseEmbeddings, Task
from visir.records.task import QrelsByName

SAVED: dict[str, Callable[[Path], Path]] = {
    "splade": tiny_sentence.save_splade,
    "inference-free": tiny_sentence.save_inference_free,
    "clip": tiny_sentence.save_sparse_clip,
}
ROLES: tuple[Role, ...] = ("query", "document")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: save(folder / kind) for kind, save in SAVED.items()}


def reference(folder: Path, role: Role, inputs: list[object]) -> np.ndarray:
    model = SparseEncoder(str(folder), device="cpu")
    encode = model.encode_query if role == "query" else model.encode_document
    weights: np.ndarray = encode(inputs, convert_to_sparse_tensor=False).numpy()
    return weights


@pytest.mark.parametrize("kind", SAVED)
def test_equals_the_library(saved: dict[str, Path], tmp_path: Path, kind: str) -> None:
    encoder = load(saved[kind], device="cpu")
    texts = Items.of_texts({str(number): text for number, text in enumerate(tiny.CAPTIONS)})
    for role in ROLES:
        expected = reference(saved[kind], role, list(tiny.CAPTIONS))
        vectors = encode_items(encoder, texts, role, store=tmp_path)
        assert isinstance(vectors, SparseEmbeddings) and vectors.ids.to_pylist() == texts.ids.to_pylist()
        assert np.abs(vectors.to_scipy().toarray() - expected).max() <= 1e-5
        assert np.abs(encoder.encode_texts(tiny.CAPTIONS, role) - expected).max() <= 1e-5
        assert 0 < (expected > 0).mean() < 0.9 and expected.std() > 0.01
        assert encode_detailed(encoder, texts, role, store=tmp_path).computed == 0
        assert encoder.encode_inputs("text", {"a": "a dog"}, role).vocabulary.name == str(saved[kind])
    assert encoder.form == "sparse" and encoder.dimension == expected.shape[1]
    assert encoder.distinguishes_roles == (kind == "inference-free")


def test_pictures_in_weighted_dimensions(saved: dict[str, Path], tmp_path: Path) -> None:
    encoder = load(saved["clip"], device="cpu")
    images = [to_rgb(photo) for photo in tiny.photos()]
    expected = reference(saved["clip"], "document", list(images))
    assert np.abs(encoder.encode_images(images) - expected).max() <= 1e-5
    for number, image in enumerate(images[:4]):
        image.save(tmp_path / f"{number}.png")
    files = {str(number): tmp_path / f"{number}.png" for number in range(4)}
    vectors = encode_items(encoder, Items.of_images(files), store=tmp_path / "store")
    assert isinstance(vectors, SparseEmbeddings)
    assert np.abs(vectors.to_scipy().toarray() - expected[:4]).max() <= 1e-5
    assert vectors.vocabulary.terms[3].as_py() == "[3]"  # learnt dimensions are no words


def test_an_item_without_terms(saved: dict[str, Path]) -> None:
    """A query of no known word has no weight, finds nothing, and is no fault."""
    encoder = load(saved["inference-free"], device="cpu")
    vectors = encoder.encode_inputs("text", {"none": "", "dog": "dog"}, "query")
    words = {name: [word for word, _ in vectors.words(name)] for name in ("none", "dog")}
    assert "dog" in words["dog"] and "dog" not in words["none"]


def test_words_of_a_text(saved: dict[str, Path]) -> None:
    vectors = visir.encode(f"st:{saved['splade']}", ["the dog", "grass"])
    assert isinstance(vectors, SparseEmbeddings)
    model = SparseEncoder(str(saved["splade"]), device="cpu")
    expected = model.decode(model.encode_document(["the dog"]))[0]
    assert [word for word, _ in vectors.words("the dog")][:5] == [word for word, _ in expected][:5]


def test_search_and_evaluation(saved: dict[str, Path]) -> None:
    queries = Items.of_texts({"q": "the dog runs"}, title="queries")
    documents = Items.of_texts({f"d{number}": text for number, text in enumerate(tiny.CAPTIONS[:5])})
    task = Task("t2t", queries, documents, QrelsByName(["links"], lambda name: Qrels.of(["q"], ["d0"], name=name)))
    result = visir.evaluate(task, f"st:{saved['inference-free']}")
    assert result.protocol.similarity == "dot"
    model = SparseEncoder(str(saved["inference-free"]), device="cpu")
    scores = model.similarity(model.encode_query(["the dog runs"]), model.encode_document(tiny.CAPTIONS[:5]))[0]
    expected = np.argsort(-scores.numpy(), kind="stable")
    first = encode_items(load(saved["inference-free"], device="cpu"), queries, "query")
    second = encode_items(load(saved["inference-free"], device="cpu"), documents, "document")
    found = (first.to_scipy() @ second.to_scipy().T).toarray()[0]  # type: ignore[union-attr]
    assert np.argsort(-found, kind="stable").tolist() == expected.tolist()


def test_options(saved: dict[str, Path], tmp_path: Path) -> None:
    with refused(EncoderError, "dimension", "SparseEncoder", code="dense-vectors-makes-others"):
        load(f"st:{saved['splade']}?dimension=3", device="cpu")
    folder = tiny_sentence.save_splade(tmp_path / "few", max_active_dims=4)
    encoder = load(folder, device="cpu")
    assert encoder.card.text_preprocessing["max_active_dims"] == 4
    assert ((encoder.encode_texts(tiny.CAPTIONS) > 0).sum(axis=1) <= 4).all()
