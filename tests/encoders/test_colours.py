"""The floor of colour words: what it sees, which words it knows, and that nothing is a zero vector."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.encoders.models.pixels import COLOURS
from visir.errors import EncoderError

PAINTS = {
    "black": (10, 10, 10),
    "white": (250, 250, 250),
    "grey": (128, 128, 128),
    "red": (210, 30, 30),
    "orange": (240, 140, 30),
    "yellow": (250, 220, 40),
    "green": (40, 160, 60),
    "blue": (40, 90, 210),
    "purple": (120, 50, 190),
    "pink": (250, 140, 190),
    "brown": (120, 70, 30),
}
"""One paint for each colour."""


@pytest.mark.parametrize("colour", COLOURS)
def test_a_painted_picture_is_found_by_its_colour_word(colour: str) -> None:
    encoder = visir.load("colours")
    images = encoder.encode_images([Image.new("RGB", (8, 8), PAINTS[name]) for name in COLOURS])
    text = encoder.encode_texts([f"a {colour} thing"])
    scores = np.asarray(images) @ np.asarray(text)[0]
    assert COLOURS[int(scores.argmax())] == colour and (scores == scores.max()).sum() == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Red and BLUE, red again", {"red": 2, "blue": 1}),
        ("ein rotes Haus, blaue Berge, weiße Wolken", {"red": 1, "blue": 1, "white": 1}),
        ("une voiture verte, des fleurs jaunes, un chat noir", {"green": 1, "yellow": 1, "black": 1}),
        ("un coche rojo, nubes blancas, flores moradas", {"red": 1, "white": 1, "purple": 1}),
        ("一只红色的狗和蓝色的车", {"red": 1, "blue": 1}),
        ("a dog on a beach", {}),
        ("", {}),
    ],
)
def test_colour_words_of_five_languages(text: str, named: dict[str, int]) -> None:
    vector = np.asarray(visir.load("colours").encode_texts([text]))[0]
    assert {name: int(count) for name, count in zip(COLOURS, vector, strict=False) if count} == named
    assert vector[-1] > 0


def test_a_small_thing_is_seen_before_its_background() -> None:
    picture = Image.new("RGB", (64, 64), PAINTS["green"])
    picture.paste(PAINTS["red"], (20, 24, 44, 48))
    vector = np.asarray(visir.load("colours").encode_images([picture]))[0]
    assert vector[COLOURS.index("red")] > vector[COLOURS.index("green")] > vector[COLOURS.index("blue")] == 0


def test_it_takes_no_options() -> None:
    with refused(EncoderError, code="colours-takes-no-options"):
        visir.load("colours:8")
