"""Encoders made of encoders: texts joined end to end, images averaged over views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refusals import refused
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.models.joined import ImageViews, JoinedTexts
from visir.encoders.models.small import BagOfWords
from visir.errors import EncoderError
from visir.records import EncoderCard

TEXTS = ["a dog runs", "two dogs run on the grass", ""]


class Columns(Encoder):
    """Twelve numbers: the mean brightness of twelve equal columns of the image, from left to right."""

    modalities = frozenset({"image"})
    dimension = 12

    def __init__(self) -> None:
        self.card = EncoderCard("columns", "test")

    def preprocess(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image.resize((12, 1), Image.Resampling.BOX).convert("L"), np.float32)

    def embed_images(self, batch):
        return np.stack([pixels[0] for pixels in batch])


def ramp() -> Image.Image:
    """24 × 24; column x has the brightness 10 · (x // 2)."""
    row = np.repeat(np.arange(12, dtype=np.uint8) * 10, 2)
    return Image.fromarray(np.stack([np.tile(row, (24, 1))] * 3, axis=2))


def test_parts_are_unit_vectors_end_to_end() -> None:
    parts = [load("bow:16"), BagOfWords.fit(TEXTS, least=1)]
    joined = JoinedTexts(parts)
    vectors = joined.encode_texts(TEXTS)
    assert vectors.shape == (3, 16 + parts[1].dimension) == (3, joined.dimension)
    np.testing.assert_allclose(vectors[:2, :16], parts[0].encode_texts(TEXTS[:2]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors[:2, 16:], axis=1), 1, atol=1e-6)
    assert not vectors[2].any()  # nothing was said


def test_joined_comes_back_from_its_folder(tmp_path: Path) -> None:
    joined = JoinedTexts([load("bow:16"), BagOfWords.fit(TEXTS, least=1)])
    joined.save(tmp_path)
    again = load(tmp_path)
    assert again.card == joined.card
    np.testing.assert_array_equal(again.encode_texts(TEXTS), joined.encode_texts(TEXTS))


def test_the_card_depends_on_the_parts_and_their_order() -> None:
    one, other = load("bow:16"), load("bow:32")
    cards = [JoinedTexts(parts).card.fingerprint for parts in ([one, other], [other, one], [one, one])]
    assert len(set(cards)) == 3


def test_joined_refuses_one_part_and_parts_without_text() -> None:
    with refused(EncoderError, code="least-two-encoders-needed"):
        JoinedTexts([load("bow")])
    with refused(EncoderError, "texts", code="encodes-no"):
        JoinedTexts([load("bow"), Columns()])


def test_views_by_hand() -> None:
    rising = np.arange(12) * 10.0
    images = [ramp()]
    np.testing.assert_allclose(ImageViews(Columns(), ["whole"]).encode_images(images)[0], rising)
    np.testing.assert_allclose(ImageViews(Columns(), ["mirrored"]).encode_images(images)[0], rising[::-1])
    # A ramp and its mirror image average to its middle, 55, everywhere.
    np.testing.assert_allclose(ImageViews(Columns(), ["whole", "mirrored"]).encode_images(images)[0], 55.0)
    # The centre leaves out 24 // 12 = 2 columns on each side: brightness 10 to 100 remain, in 20 columns for 12 places.
    centre = ImageViews(Columns(), ["centre"]).encode_images(images)[0]
    assert centre[0] == pytest.approx(10, abs=0.5) and centre[-1] == pytest.approx(100, abs=0.5)
    both = ImageViews(Columns(), ["centre", "centre mirrored"])
    np.testing.assert_allclose(both.encode_images(images)[0], 55.0, atol=0.5)
    assert both.alone("centre").views == ("centre",)


def test_views_that_are_none() -> None:
    with refused(EncoderError, "center", code="unknown-view") as caught:
        ImageViews(Columns(), ["center"])
    assert "did you mean 'centre'?" in str(caught.value)
    with refused(EncoderError, code="views-one-more-each", hint=False):
        ImageViews(Columns(), ["whole", "whole"])
    with refused(EncoderError, "images", code="encodes-no"):
        ImageViews(load("bow"), ["whole"])


def test_more_views_are_another_encoder() -> None:
    names = [["whole"], ["mirrored"], ["whole", "mirrored"]]
    assert len({ImageViews(Columns(), views).card.fingerprint for views in names}) == 3
