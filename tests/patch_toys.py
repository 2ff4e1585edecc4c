"""A small encoder of form "multi-vector", by its class and by the name "patches"; a slow MaxSim to compare with."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from visir.encoders.base import Encoder
from visir.encoders.families import FAMILIES, Family
from visir.encoders.intake import Pixels
from visir.records import EncoderCard, MultiVectorEmbeddings, TokenVectors

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


class Patches(Encoder):
    """Several vectors for each input: of an image one per quarter, of a text one per word (colours count)."""

    form = "multi-vector"
    batch_size = 4

    def __init__(self, *, weights: str | None = "w1", pause: float = 0.0) -> None:
        self.card = EncoderCard(name="patches", family="toy", weights=weights)
        self.pause = pause
        self.seen: list[int] = []

    def embed_images(self, batch: Sequence[Pixels]) -> TokenVectors:
        time.sleep(self.pause)
        self.seen.append(len(batch))
        quarters = []
        for image in batch:
            pixels = np.asarray(image, np.float32) / 255
            down, across = len(pixels) // 2, pixels.shape[1] // 2
            parts = [pixels[y : y + down, x : x + across] for y in (0, down) for x in (0, across)]
            quarters.append(np.stack([part.mean((0, 1)) for part in parts]))
        return TokenVectors.of(quarters)

    def embed_texts(self, texts: Sequence[str]) -> TokenVectors:
        time.sleep(self.pause)
        self.seen.append(len(texts))
        return TokenVectors.of([[COLOURS.get(word, (0.1, 0.1, 0.1)) for word in text.split()] for text in texts])


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Patches:
    """What `visir.load("patches")` gives."""
    return Patches()


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which `visir.load` and the verbs know `Patches` in this test."""
    family = Family("patches", "a toy", "patches", "patches", "patch_toys", prefixes=("patches",), devices=False)
    FAMILIES.get("pixels")  # the plugins are looked for now, and not while the test runs
    monkeypatch.setitem(FAMILIES._things, "patches", family)
    return "patches"


def slow_maxsim(queries: MultiVectorEmbeddings, documents: MultiVectorEmbeddings) -> dict[str, dict[str, float]]:
    """The score of every query with every document, pair by pair."""
    return {
        query: {
            document: sum(
                max(float(np.dot(word.astype(float), part.astype(float))) for part in documents[document])
                for word in queries[query]
            )
            for document in documents
        }
        for query in queries
    }
