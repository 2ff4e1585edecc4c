"""Zero-shot baselines: encoders as they come, on titles and on pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refusals import refused
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, EncoderError
from visir.products.evaluation import evaluate
from visir.products.generated import generate_catalogue
from visir.products.systems import CategoryVectorSystem, TitleBm25, baseline, image_zero_shot, text_zero_shot
from visir.products.task import Split, folds
from visir.records import Catalogue, EncoderCard
from visir.retrieval.bm25 import Bm25


def test_titles_by_a_text_encoder() -> None:
    catalogue = Catalogue.of(
        "three", ids=["a", "b", "c"], paths=[["Dogs"], ["Cats"], ["Cats"]], titles=["red dogs", None, "blue cats"]
    )
    bow = load("bow")
    system = text_zero_shot(bow, catalogue)
    assert system.name == "bow:4096, titles"
    assert system.products.ids.to_pylist() == ["a", "c"]  # b has no title
    np.testing.assert_allclose(system.products.vectors, bow.encode_texts(["red dogs", "blue cats"]))
    np.testing.assert_allclose(system.categories.vectors, bow.encode_texts(["Dogs", "Cats"]))


def test_a_product_without_title_is_a_candidate_and_never_found() -> None:
    catalogue = generate_catalogue(120, noise=0.0).catalogue
    titles = catalogue.products["title"].to_pylist()
    products = catalogue.products.set_column(1, "title", [[None if row % 2 else one for row, one in enumerate(titles)]])
    half = Catalogue(catalogue.name, products, catalogue.attributes, catalogue.categories, catalogue.root)
    trial = evaluate(half, [text_zero_shot(load("bow"), half)], folds(half, 2)).trials["bow:4096, titles", "general"][0]
    assert trial.run.gallery.size == trial.task.gallery.size == trial.task.fold.test.sum()
    lost = int((trial.task.fold.test & (np.arange(120) % 2 == 1)).sum())
    assert trial.result.notes == (f"{lost:,} of {trial.task.gallery.size:,} relevant products are not in the ranking",)


def test_names_of_baselines() -> None:
    catalogue = generate_catalogue(20).catalogue
    system = baseline("bm25", catalogue)
    assert isinstance(system, TitleBm25) and system.bm25 == Bm25()
    plain = baseline("bm25:plain", catalogue)
    assert isinstance(plain, TitleBm25) and plain.bm25 == Bm25(stemming="none") and plain.name == "BM25, plain"
    assert isinstance(baseline("text:bow", catalogue), CategoryVectorSystem)
    for wrong in ("bm26", "bm25:", "bm25:stemmed", "text:", "clip", "mpnet:x"):
        with refused(ConfigurationError, "unknown baseline"):
            baseline(wrong, catalogue)


def test_one_sided_encoders_are_refused() -> None:
    catalogue = generate_catalogue(20).catalogue
    with refused(EncoderError, "images", code="encodes-no"):
        image_zero_shot(load("bow"), catalogue)
    with refused(EncoderError, "texts", code="encodes-no"):
        image_zero_shot(load("pixels"), catalogue)
    nameless = generate_catalogue(20).catalogue
    products = nameless.products.set_column(1, "title", [[None] * 20])
    with refused(ConfigurationError, code="no-product-title-encode"):
        text_zero_shot(load("bow"), Catalogue("untitled", products, nameless.attributes, nameless.categories))


class Colours(Encoder):
    """An image–text encoder that can be worked out by hand: a picture's mean colour, and what a word says of it."""

    card = EncoderCard("colours", "by hand")
    dimension = 3
    modalities = frozenset({"image", "text"})

    def preprocess(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image, dtype=np.float32)

    def embed_images(self, batch: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([one.mean(axis=(0, 1)) for one in batch]).astype(np.float32)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([["red" in one.lower(), "green" in one.lower(), "blue" in one.lower()] for one in texts], "f4")


def test_pictures_by_an_image_text_encoder(tmp_path: Path) -> None:
    for name, colour in (("a", (250, 5, 5)), ("b", (5, 5, 250)), ("c", (250, 9, 60))):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "d.png").write_bytes(b"no picture")
    catalogue = Catalogue.of(
        "colours",
        ids=list("abcde"),
        paths=[["Red things"], ["Blue things"], ["Red things"], ["Red things"], ["Blue things", "Blue skies"]],
        image_paths=["a.png", "b.png", "c.png", "d.png", None],
        root=tmp_path,
    )
    system = image_zero_shot(Colours(), catalogue)
    # d cannot be read and e has no picture: both are candidates that are never found.
    assert system.name == "colours, pictures" and system.products.ids.to_pylist() == ["a", "b", "c"]
    split = Split(np.zeros(5, bool), np.zeros(5, bool), np.ones(5, bool))
    found = evaluate(catalogue, [system], [split])
    trial = found.trials[system.name, "general"][0]
    assert [one for one, _ in trial.run.answer("Red things")] == ["a", "c", "b"]
    assert [one for one, _ in trial.run.answer("Blue things")] == ["b", "c", "a"]
    # R-precision: 2 of 3 for red, 1 of 2 for blue.
    assert trial.mean("rprecision") == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert trial.task.gallery.size == 5
    # Blue skies has e alone, which stands behind all five candidates; of the others the first right one is first.
    assert found.spread(system.name, "specific", "mean_rank").mean == (1 + 1 + 6) / 3
