"""Examples with a planted answer: images and captions are two linear views of the same hidden facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.records import Modality
from visir.training.inputs import TrainingExamples, VectorSource
from visir.training.objective import Objective, build_objective
from visir.training.recipe import Recipe

IMAGE, TEXT, TARGET = 24, 20, 6


def planted(images: int, *, seed: int, per_image: int = 2, views: int = 1, targets: bool = False) -> TrainingExamples:
    """`images` images of 24 dimensions, `per_image` captions each of 20, both linear in 8 hidden facts.

    Views of an image differ by a little noise; latent targets are six of the facts, normalised.
    """
    world = np.random.default_rng(99)  # the two maps are the same for every split
    to_image, to_text = world.normal(size=(8, IMAGE)), world.normal(size=(8, TEXT))
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(images, 8))
    owners = np.repeat(np.arange(images), per_image)
    noise = rng.normal(size=(views, images, IMAGE)) * (0.0 if views == 1 else 0.3)
    latent = facts[owners, :TARGET] / np.linalg.norm(facts[owners, :TARGET], axis=1, keepdims=True)
    return TrainingExamples(
        anchors=VectorSource((facts @ to_image + noise).astype(np.float32)),
        positives=VectorSource((facts[owners] @ to_text).astype(np.float32)[None]),
        anchor_rows=owners,
        ids=[f"c{row}" for row in range(len(owners))],
        origin={"seed": seed},
        targets=VectorSource(latent.astype(np.float32)[None]) if targets else None,
    )


def recipe(**changes: object) -> Recipe:
    """A small recipe over planted examples; `changes` are whole sections or single keys, sections merged."""
    values: dict[str, Any] = {
        "name": "planted",
        "data": {"collection": "scenes:1"},
        "dimension": 16,
        "image": {"tower": "frozen", "encoder": "pixels"},
        "text": {"tower": "frozen", "encoder": "bow"},
        "optimiser": {"epochs": 12, "batch": 64, "rate": 0.01},
    }
    for key, change in changes.items():
        values[key] = {**values.get(key, {}), **change} if isinstance(change, dict) else change
    return Recipe.model_validate(values)


def towers(*, seed: int = 0, **shape: Any) -> dict[Modality, Tower]:
    """Two heads of fresh weights over planted vectors."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return {
            "image": Tower(None, Head(HeadSpec(IMAGE, 16, **shape))),
            "text": Tower(None, Head(HeadSpec(TEXT, 16, **shape))),
        }


def objective(settings: Recipe, *, seed: int = 0) -> Objective:
    """What the recipe says, with planted targets."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_objective(
            settings.objective,
            settings.auxiliary,
            dimension=16,
            target_width=TARGET,
            vocabulary=None,
            own_temperature=None,
        )
