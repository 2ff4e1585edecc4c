"""Cross-encoders for tests: one whose scores can be worked by hand, and a tiny BLIP with random weights."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.intake import Pixels
from visir.records import Collection, EncoderCard


class Nearness(CrossEncoder):
    """−|red − 10 · number in the text|: 0 for "3" and a picture whose red is 30. Counts what goes through it."""

    images_at_once, texts_at_once, pairs_at_once = 3, 4, 5

    def __init__(self, *, weights: str | None = "w1", pause: float = 0.0) -> None:
        self.card = EncoderCard("nearness", "toy", weights=weights)
        self.pause = pause
        self.images: list[int] = []
        self.texts: list[str] = []
        self.calls: list[int] = []

    @property
    def pairs(self) -> int:
        return sum(self.calls)

    def preprocess(self, image: Image.Image) -> Pixels:
        return np.asarray(image, np.float32)

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        self.images.append(len(batch))
        return [one[:1, 0, :1] for one in batch]

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        self.texts += texts
        return [np.array([[float(text.split()[0])]], np.float32) for text in texts]

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        time.sleep(self.pause)
        self.calls.append(len(images))
        return np.array([-abs(a[0, 0] - 10 * b[0, 0]) for a, b in zip(images, texts, strict=True)], np.float32)


def reds(folder: Path, reds: Sequence[int], texts: Sequence[str], owners: Sequence[int]) -> Collection:
    """Pictures a, b, c, … of these reds; captions t0, t1, … with these texts, of the pictures at these places."""
    ids = [chr(ord("a") + at) for at in range(len(reds))]
    folder.mkdir(parents=True, exist_ok=True)
    for file, red in zip([folder / f"{name}.png" for name in ids], reds, strict=True):
        if not file.exists() or Image.open(file).getpixel((0, 0)) != (red, 0, 0):
            Image.new("RGB", (4, 4), (red, 0, 0)).save(file)
    return Collection.build(
        "reds",
        images={"id": ids, "path": [f"{name}.png" for name in ids]},
        captions={
            "id": [f"t{at}" for at in range(len(texts))],
            "text": list(texts),
            "image_id": [ids[owner] for owner in owners],
        },
        root=folder,
    )


def tiny_blip(folder: Path) -> Any:
    """A BLIP of random weights, saved in `folder`; returns the model."""
    return _toys("tiny_transformers").save("blip", folder)


def tiny_fusion(kind: str, folder: Path) -> str:
    """An "xvlm" or "albef" of random weights in its authors' layout, in `folder`; returns its name for `load`."""
    name: str = _toys("tiny_fusion").write(kind, folder)
    return name


def _toys(module: str) -> Any:
    """A module of the encoders' tests."""
    sys.path.append(str(Path(__file__).parent / "encoders"))
    return importlib.import_module(module)
