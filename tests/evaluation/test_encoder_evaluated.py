"""An encoder evaluated on real files: through the store, with a broken picture, and with its card on the card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from refusals import refused
from visir.encoders import Store
from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, VisirError
from visir.evaluation import evaluate
from visir.records import Collection, EncoderCard

COLOURS = {"red": (220, 20, 20), "green": (20, 220, 20), "blue": (20, 20, 220), "grey": (120, 120, 120)}


class Colours(Encoder):
    """Pictures by their mean colour, captions by the colour they name: right on every picture of one colour."""

    def __init__(self) -> None:
        self.card = EncoderCard("colours", "test", weights="1", image_preprocessing={"mean": "whole picture"})
        self.dimension = 3
        self.modalities = frozenset({"image", "text"})

    def preprocess(self, image: Image.Image) -> NDArray[Any]:
        return np.asarray(image, np.float32).mean(axis=(0, 1))

    def embed_images(self, batch: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        return np.stack(batch)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([COLOURS[text.split()[-1]] for text in texts], np.float32)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    for name, colour in COLOURS.items():
        Image.new("RGB", (20, 10), colour).save(tmp_path / f"{name}.png")
    names = list(COLOURS)
    return Collection.build(
        "colours",
        images={"id": names, "path": [f"{one}.png" for one in names]},
        captions={"id": [f"{one}#0" for one in names], "text": [f"all {one}" for one in names], "image_id": names},
        root=tmp_path,
    )


def test_an_encoder_is_evaluated_through_the_store(collection: Collection, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    result = evaluate(collection, Colours(), store=store).result
    assert result.system == "colours"
    assert result.mean("t2i", "hit@1") == result.mean("i2t", "hit@1") == 1
    assert result.protocol.image_preprocessing == "mean whole picture"
    assert {"encode images", "encode captions", "search", "measure"} <= set(result.timing)
    assert any((tmp_path / "store").rglob("*"))


def test_a_broken_picture_stops_or_is_set_aside(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "blue.png").write_bytes(b"\x89PNG cut short")
    with refused(VisirError, "blue"):
        evaluate(collection, Colours(), store=Store(tmp_path / "store"))
    result = evaluate(collection, Colours(), store=Store(tmp_path / "store"), skip_broken=True).result
    assert "1 image could not be encoded; set aside, with the captions: blue" in result.notes
    assert result.per_query["t2i"]["query_id"].to_pylist() == ["green#0", "grey#0", "red#0"]
    assert result.protocol.galleries["t2i"].startswith("3 images")


def test_an_unknown_option_of_encoding_is_named(collection: Collection) -> None:
    with refused(ConfigurationError, "unknown option", "batchsize", meant="batch_size", hint=False):
        evaluate(collection, Colours(), batchsize=4)
