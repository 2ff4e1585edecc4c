"""Shorter and coarser vectors, by hand and against sentence-transformers' own quantisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.util import quantize_embeddings

from visir.collections.images import to_rgb
from visir.encoders import Encoder, encode_detailed, encode_items
from visir.encoders.loading import load
from visir.encoders.models.sentence import ReducedEncoder, int8_codes, int8_values
from visir.errors import EncoderError
from visir.records import Items


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_sentence.save(tmp_path_factory.mktemp("models") / "sentence", modules.Dense(32, 20))


def test_codes_by_hand() -> None:
    """The largest is 2.55, so a step is 0.02. −2.55 begins the first; 0 is in the middle of step 127; 2.55 ends all."""
    vectors = np.array([[2.55, -2.55, 0.0, 1.0]], np.float32)
    assert int8_codes(vectors).tolist() == [[127, -128, -1, 49]]
    assert np.allclose(int8_values(vectors), [[2.55, -2.54, 0.0, 1.0]], atol=0.0101)
    assert int8_values(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]
    assert int8_codes(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_cut_as_the_library_cuts(saved: Path) -> None:
    encoder = load(f"st:{saved}?dimension=7", device="cpu")
    expected = SentenceTransformer(str(saved), device="cpu", truncate_dim=7).encode(tiny.CAPTIONS)
    assert encoder.dimension == 7 and encoder.card.text_preprocessing["dimension"] == 7
    assert np.abs(encoder.encode_texts(tiny.CAPTIONS) - expected).max() <= 1e-5
    assert np.abs(encoder.embed_texts_alike(tiny.CAPTIONS[:1]) - expected[:1]).max() <= 1e-5


def test_a_model_that_is_saved_to_be_cut(saved: Path, tmp_path: Path) -> None:
    SentenceTransformer(str(saved), device="cpu", truncate_dim=9).save(str(tmp_path / "cut"))
    encoder = load(tmp_path / "cut", device="cpu")
    assert encoder.dimension == 9 and encoder.card.text_preprocessing["dimension"] == 9
    assert np.array_equal(encoder.encode_texts(["a dog"]), load(saved, device="cpu").encode_texts(["a dog"])[:, :9])


@pytest.mark.parametrize("quantise", ["int8", "binary"])
def test_quantised_as_the_library_quantises(saved: Path, quantise: str) -> None:
    whole = load(saved, device="cpu").encode_texts(tiny.CAPTIONS)
    encoder = load(f"st:{saved}?quantise={quantise}&dimension=16", device="cpu")
    vectors = encoder.encode_texts(tiny.CAPTIONS)
    cut = whole[:, :16]
    if quantise == "binary":
        assert set(np.unique(vectors)) == {-1.0, 1.0}
        codes = quantize_embeddings(cut, "ubinary")
        assert np.array_equal(np.packbits(vectors > 0, axis=1), codes)
        # What the card says: 1 - 2 · Hamming / d is the cosine.
        hamming = np.unpackbits(codes[:, None] ^ codes[None], axis=2).sum(axis=2)
        assert np.allclose(vectors @ vectors.T / 16, 1 - 2 * hamming / 16)
    else:
        for row, vector in enumerate(cut):
            largest = np.full(16, np.abs(vector).max(), np.float32)
            codes = quantize_embeddings(vector[None], "int8", ranges=np.stack([-largest, largest]))
            assert np.array_equal(int8_codes(cut[row : row + 1]), codes)
        step = 2 * np.abs(cut).max(axis=1, keepdims=True) / 255
        assert (np.abs(vectors - cut) <= 0.51 * step).all()
    assert encoder.card.text_preprocessing["quantise"].startswith(f"{quantise}: ")


def test_another_dimension_encodes_nothing_again(saved: Path, tmp_path: Path) -> None:
    texts = Items.of_texts({"1": "a dog", "2": "two boats"})
    assert encode_detailed(load(saved, device="cpu"), texts, store=tmp_path).computed == 2
    for options in ("dimension=7", "dimension=3&quantise=binary", "quantise=int8"):
        encoder = load(f"st:{saved}?{options}", device="cpu")
        again = encode_detailed(encoder, texts, store=tmp_path)
        assert again.computed == 0 and again.embeddings.encoder == encoder.card
        assert np.abs(again.embeddings.vectors - encoder.encode_texts(["a dog", "two boats"])).max() <= 1e-5
    cards = [load(f"st:{saved}{options}", device="cpu").card for options in ("", "?dimension=7", "?quantise=int8")]
    assert len({card.weights for card in cards}) == 3


def test_pictures_and_roles(tmp_path: Path) -> None:
    folder = tiny_sentence.save_qwen(tmp_path / "qwen")
    encoder, whole = load(f"st:{folder}?dimension=8", device="cpu"), load(folder, device="cpu")
    images = [to_rgb(photo) for photo in tiny.photos()[:3]]
    assert encoder.modalities == whole.modalities and encoder.distinguishes_roles
    assert np.array_equal(encoder.encode_images(images, "query"), whole.encode_images(images, "query")[:, :8])
    pixels = [encoder.preprocess(image) for image in images]
    texts = ["a", "b", "c"]
    both = encoder.embed_texts_with_images(texts, pixels)
    assert np.array_equal(both, whole.embed_texts_with_images(texts, pixels)[:, :8])
    assert encoder.card.image_preprocessing["dimension"] == 8


def test_faults(saved: Path) -> None:
    with pytest.raises(EncoderError) as caught:
        load(f"st:{saved}?dimension=21", device="cpu")
    assert caught.value.message == (
        f"st:{saved}?dimension=21: dimension=21 is more than the 20 values of this model's vectors."
    )
    for options, fault in (
        ("dimension=0", "is not a positive whole number"),
        ("dimension=half", "is not a positive whole number"),
        ("quantise=int4", r"quantise='int4' is not known.\n.*did you mean 'int8'"),
        ("quantize=int8", r"unknown option 'quantize': did you mean 'quantise'"),
    ):
        with pytest.raises(EncoderError, match=fault):
            load(f"st:{saved}?{options}", device="cpu")


def test_over_an_encoder_of_ones_own() -> None:
    own = Encoder.wrap("own", text=lambda texts: [[float(len(text)), 1.0, -1.0] for text in texts], version="1")
    own.encode_texts(["a"])
    binary = ReducedEncoder(own, name="own, binary", dimension=2, quantise="binary")
    assert binary.encode_texts(["", "abc"]).tolist() == [[-1, 1], [1, 1]]
    assert binary.card.name == "own, binary" and binary.card.weights is None and binary.card.is_versioned
    assert encode_items(binary, Items.of_texts({"1": "abc"})).vectors.tolist() == [[1, 1]]
