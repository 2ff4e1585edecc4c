"""A model of colours and words, and a task whose queries have a picture and a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from visir.encoders.base import Encoder
from visir.records import EncoderCard, Items, TaskFile
from visir.records.items import PLACES

COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
}


class Colours(Encoder):
    """The mean colour of a picture, and the colours that a text names: three values each, in one space."""

    card = EncoderCard("colours", "test", revision="1")
    dimension = 3

    def __init__(self) -> None:
        self.pictures = 0
        self.texts = 0

    def embed_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        self.pictures += len(images)
        return np.array([image.resize((1, 1)).getpixel((0, 0)) for image in images], np.float32)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += len(texts)
        return np.array([np.sum([COLOURS[word] for word in text.split() if word in COLOURS], axis=0) for text in texts])


def paint(folder: Path) -> Path:
    """Write a picture of each colour."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, colour in COLOURS.items():
        Image.new("RGB", (8, 8), colour).save(folder / f"{name}.png")
    return folder


def places(names: Sequence[str | None]) -> pa.Table:
    paths = [None if name is None else f"{name}.png" for name in names]
    return pa.table({"path": pa.array(paths, pa.string()), "archive": pa.nulls(len(paths), pa.string())}, schema=PLACES)


def mixing(folder: Path) -> TaskFile:
    """Each query has a picture of one colour and the word for another; the mixture of both is right."""
    paint(folder)
    queries = {"q1": ("red", "more green", "yellow", "test"), "q2": ("blue", "more green", "cyan", "test"),
               "q3": ("green", "more red", "yellow", "val")}  # fmt: skip
    columns = list(zip(*queries.values(), strict=True))
    return TaskFile(
        "mixing",
        Items(pa.array(list(queries)), pa.array(columns[1]), places(columns[0]), folder, "queries", "mixing"),
        Items(pa.array(list(COLOURS)), None, places(list(COLOURS)), folder, "images", "mixing"),
        pa.table({"split": columns[3], "query_id": list(queries), "document_id": columns[2], "grade": [1.0] * 3}),
    )
