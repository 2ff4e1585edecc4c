"""Features with a planted answer: images and captions are two linear views of the same hidden facts."""

from __future__ import annotations

import numpy as np

from visir.training.features import Features
from visir.training.recipe import Recipe


def planted(images: int, *, seed: int, per_image: int = 2, noise: float = 0.0) -> Features:
    """`images` images of 24 dimensions, `per_image` captions each of 20, both linear in 8 hidden facts."""
    world = np.random.default_rng(99)  # the two maps are the same for every split
    to_image, to_text = world.normal(size=(8, 24)), world.normal(size=(8, 20))
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(images, 8))
    owners = np.repeat(np.arange(images), per_image)
    texts = facts[owners] @ to_text + noise * rng.normal(size=(len(owners), 20))
    captions = [f"c{row}" for row in range(len(owners))]
    return Features(
        (facts @ to_image).astype(np.float32)[None], texts.astype(np.float32), owners, captions, {"seed": seed}
    )


def recipe(**changes: object) -> Recipe:
    """A small recipe over planted features; `changes` are whole sections or single keys."""
    values: dict[str, object] = {
        "name": "planted",
        "data": {"collection": "scenes:1"},
        "backbones": {"image": "pixels", "text": "bow"},
        "model": {"dimension": 16},
        "optimiser": {"epochs": 12, "batch": 64, "rate": 0.01},
    }
    return Recipe.model_validate(values | changes)
