"""A small late-interaction model that needs no training: patches of pictures in colours, and words that name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from visir.encoders import Encoder
from visir.records import EncoderCard, Role

COLOURS = {
    "red": (200, 30, 30),
    "green": (40, 160, 60),
    "blue": (40, 70, 200),
    "yellow": (230, 200, 40),
    "white": (245, 245, 245),
    "black": (15, 15, 15),
}
GRID = 4
NAMES = list(COLOURS)


class ColourPatches(Encoder):
    """A unit vector for each of 4 × 4 patches, near that of the nearest colour; one for each word, in the same space.

    A word that names no colour is like no patch. A mark before the words stands for no word, as many models have one.
    """

    form = "multi-vector"
    dimension = len(NAMES) + 1
    modalities = frozenset({"image", "text"})
    card = EncoderCard("colour-patches", "test", revision="1")

    def preprocess(self, image: Image.Image) -> Any:
        return np.asarray(image.resize((GRID, GRID), Image.Resampling.BOX), np.float64).reshape(-1, 3)

    def embed_images(self, batch: Sequence[Any]) -> Any:
        palette = np.array(list(COLOURS.values()), np.float64)
        return [_unit(np.exp(-np.linalg.norm(patches[:, None] - palette, axis=2) / 40.0)) for patches in batch]

    def embed_texts(self, texts: Sequence[str]) -> Any:
        return [np.stack([_of_word(word) for word in pieces]) for pieces in self.text_pieces(texts, "query")]

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        return [["[Q]", *text.lower().split()] for text in texts]

    def image_regions(self, image: Image.Image) -> Any:
        rows, columns = np.divmod(np.arange(GRID * GRID), GRID)
        return np.stack([columns, rows, columns + 1, rows + 1], axis=1) / GRID


def _unit(weights: Any) -> Any:
    vectors = np.concatenate([weights, np.full((len(weights), 1), 1e-3)], axis=1)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _of_word(word: str) -> Any:
    vector = np.zeros(len(NAMES) + 1, np.float32)
    vector[NAMES.index(word) if word in COLOURS else -1] = 1.0
    return vector


def draw_patches(folder: Path) -> Path:
    """Photos whose colours are in known corners: `top left`, `bottom right`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (first, second) in {
        "red-blue.png": ("red", "blue"),
        "blue-red.png": ("blue", "red"),
        "green-green.png": ("green", "green"),
        "yellow-black.png": ("yellow", "black"),
    }.items():
        picture = Image.new("RGB", (80, 64), COLOURS["white"])
        picture.paste(COLOURS[first], (0, 0, 20, 16))
        picture.paste(COLOURS[second], (60, 48, 80, 64))
        picture.save(folder / name)
    return folder
