"""Significance over seeds and images together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

import visir
from refusals import refused
from visir.errors import VisirError
from visir.evaluation.results import rsum_by_image
from visir.records import Collection, Embeddings, EncoderCard
from visir.stats import difference, estimate


def test_by_hand() -> None:
    # Two seeds, three images. Means over seeds: 2, 3, 4 → variance 1, /3; means over images: 2, 4 → variance 2, /2.
    differences = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    # Squared standard errors 1/3 + 1 = 4/3; mean 3; t = 3 / √(4/3) = 2.598.
    # Degrees of freedom (4/3)² / ((1/3)²/2 + 1²/1) = 1.778 / 1.0556 = 1.684.
    expected = 2 * student.sf(3 / np.sqrt(4 / 3), (16 / 9) / (1 / 18 + 1))
    assert difference(differences, 0).p == pytest.approx(expected, rel=1e-12)
    half = student.ppf(0.975, (16 / 9) / (1 / 18 + 1)) * np.sqrt(4 / 3)
    assert difference(differences, 0).ends == pytest.approx((3 - half, 3 + half), rel=1e-12)


def test_nothing_differs_or_everything_by_the_same() -> None:
    assert difference(np.zeros((3, 5)), 0).p == 1.0 and np.isnan(difference(np.ones((3, 5)), 0).p)
    assert np.isnan(estimate(np.ones((3, 5))).ends).all()
    with refused(VisirError, "1", "5", code="both-samples-two-least"):
        difference(np.zeros((1, 5)), 0)


def test_what_images_add_is_the_rsum() -> None:
    rng = np.random.default_rng(0)
    ids = [f"i{row}" for row in range(20)]
    captions = [f"{one}-{k}" for one in ids for k in range(3)]
    collection = Collection.build(
        "x",
        images={"id": ids},
        captions={"id": captions, "text": captions, "image_id": [one for one in ids for _ in range(3)]},
    )
    card = EncoderCard(name="x", family="x")
    images = Embeddings("image", collection.images["id"].combine_chunks(), rng.normal(size=(20, 8)), card)
    near = np.repeat(images.vectors, 3, axis=0) + rng.normal(size=(60, 8))
    texts = Embeddings("text", collection.captions["id"].combine_chunks(), near, card)
    evaluation = visir.evaluate(collection, (images, texts))
    found = rsum_by_image(evaluation)
    assert found.shape == (20,)
    assert found.mean() == pytest.approx(evaluation.result.mean("both", "rsum"))
