"""Coloured pictures in folders by class, and a model that sees their mean colour and knows colours by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

import visir

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def picture(colour: str, seed: int, noise: float = 40.0) -> Image.Image:
    """A small picture of a colour, a little off."""
    shift = np.random.default_rng(seed).normal(0, noise, 3)
    colours = np.clip(np.array(COLOURS[colour]) + shift, 0, 255).astype(np.uint8)
    return Image.fromarray(np.tile(colours, (6, 8, 1)))


def class_folder(
    place: Path, train: int = 6, test: int = 4, classes: Iterable[str] = COLOURS, noise: float = 40.0, val: int = 0
) -> Path:
    """`place/train/red/0.png`, …"""
    for part, (split, count) in enumerate((("train", train), ("test", test), ("val", val))):
        for place_of_class, colour in enumerate(classes):
            for number in range(count):
                file = place / split / colour / f"{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                picture(colour, 10_000 * part + 100 * place_of_class + number, noise).save(file)
    return place


def mean_colours(images: list[Image.Image]) -> np.ndarray:
    """The mean colour of each picture, from -0.5 to 0.5."""
    return np.stack([np.asarray(image, float).mean((0, 1)) / 255 - 0.5 for image in images])


def named_colours(prompts: list[str]) -> np.ndarray:
    """The colour that each prompt names; a little of the length of the prompt, so that templates differ."""
    vectors = []
    for prompt in prompts:
        named = [np.array(COLOURS[name]) for name in COLOURS if name in prompt]
        base = np.mean(named, axis=0) / 255 - 0.5 if named else np.array([0.1, 0.1, 0.1])
        vectors.append(base + 0.01 * len(prompt) * np.array([1, -1, 0.5]))
    return np.stack(vectors)


def colour_model(name: str = "colours", texts: bool = True, version: str | None = None) -> visir.Encoder:
    """A model of images and, if wished, of texts."""
    return visir.Encoder.wrap(name, image=mean_colours, text=named_colours if texts else None, version=version)
