"""A model that reads: pictures by their mean colour, captions by the colours they name. A typo in one is fatal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.base import Encoder
from visir.records import Collection, EncoderCard

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


class Reader(Encoder):
    """Counts what it is asked, so that a test can say what was encoded anew."""

    def __init__(self, name: str = "reader") -> None:
        self.card = EncoderCard(name, "test", weights=name, image_preprocessing={"mean": "whole picture"})
        self.dimension = 4
        self.modalities = frozenset({"image", "text"})
        self.texts: list[str] = []
        self.pictures = 0

    def preprocess(self, image: Image.Image) -> NDArray[Any]:
        return np.append(np.asarray(image, np.float32).mean(axis=(0, 1)) / 255, 0.05).astype(np.float32)

    def embed_images(self, batch: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        self.pictures += len(batch)
        return np.stack(batch)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.array([self._read(text) for text in texts], np.float32)

    def _read(self, text: str) -> list[float]:
        vector = [0.0, 0.0, 0.0, 0.0]
        for word in text.replace(".", " ").lower().split():
            amount, _, colour = word.rpartition("-")
            if colour in COLOURS:
                weight = float(amount) if amount.isdigit() else 1.0
                vector = [a + weight * b for a, b in zip(vector, (*COLOURS[colour], 0), strict=True)]
        return vector


def coloured(folder: Path, count: int = 24) -> Collection:
    """Pictures of one mixed colour each, and two captions of each: one says its mixture, one says nothing of it."""
    rng = np.random.default_rng(1)
    mixtures = rng.integers(1, 100, (count, 3))
    images, captions = [], []
    for row, mixture in enumerate(mixtures):
        name = f"{row:03d}"
        Image.new("RGB", (32, 32), tuple(int(2.5 * one) for one in mixture)).save(folder / f"{name}.png")
        images.append(name)
        said = " ".join(f"{amount}-{colour}" for amount, colour in zip(mixture, COLOURS, strict=True))
        captions += [(f"{name}#0", f"{said} paint", name), (f"{name}#1", "red", name)]
    return Collection.build(
        "coloured",
        images={"id": images, "path": [f"{one}.png" for one in images], "split": ["test"] * count},
        captions={
            "id": [c[0] for c in captions],
            "text": [c[1] for c in captions],
            "image_id": [c[2] for c in captions],
        },
        root=folder,
    )
