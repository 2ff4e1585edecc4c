"""Small encoders and collections for the tests of this room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.base import Encoder
from visir.encoders.intake import Pixels
from visir.records import Collection, EncoderCard


class Means(Encoder):
    """Images: mean red, green, blue. Texts: length, number of spaces, 1. Counts what goes through it; can be slow."""

    batch_size = 4

    def __init__(self, *, weights: str | None = "w1", name: str = "means", pause: float = 0.0) -> None:
        self.card = EncoderCard(name=name, family="toy", weights=weights)
        self.dimension = 3
        self.modalities = frozenset({"image", "text"})
        self.pause = pause
        self.seen: list[int] = []

    def preprocess(self, image: Image.Image) -> Pixels:
        return np.asarray(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        time.sleep(self.pause)
        self.seen.append(len(batch))
        return np.stack([one.mean(axis=(0, 1)) for one in batch]).astype(np.float32)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        time.sleep(self.pause)
        self.seen.append(len(texts))
        return np.array([[len(one), one.count(" "), 1] for one in texts], dtype=np.float32)


def photos(folder: Path, count: int, *, captions: int = 1) -> Collection:
    """`count` plain 8 × 8 PNGs, image i of colour (i, 2i, 3i) mod 256, in `folder`, with captions."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = [f"p{i:03}" for i in range(count)]
    for i, name in enumerate(ids):
        Image.new("RGB", (8, 8), (i % 256, 2 * i % 256, 3 * i % 256)).save(folder / f"{name}.png")
    return Collection.build(
        "photos",
        images={"id": ids, "path": [f"{name}.png" for name in ids]},
        captions={
            "id": [f"{name}#{j}" for name in ids for j in range(captions)],
            "text": [f"photo {i} of colour {'very ' * (i % 3)}{i}" for i in range(count) for _ in range(captions)],
            "image_id": [name for name in ids for _ in range(captions)],
        },
        root=folder,
    )
