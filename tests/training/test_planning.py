"""The plan of a recipe: parameters and steps by hand, memory against tensors that can be counted."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from visir.errors import CollectionError
from visir.training.planning import TrainingPlan, plan
from visir.training.processes import kept_bytes, peak_memory
from visir.training.recipe import Recipe

HEADS: dict[str, Any] = {
    "image": {"tower": "frozen", "encoder": "pixels"},
    "text": {
        "tower": "frozen", "encoder": "bow:64", "head": {"hidden": [24], "shortcut": True, "dropout": 0.1},
    },
}  # fmt: skip


def planned(**changes: Any) -> TrainingPlan:
    values: dict[str, Any] = {
        "name": "small",
        "dimension": 16,
        "data": {"collection": "scenes:120?size=64"},
        "optimiser": {"epochs": 3, "batch": 32},
        **HEADS,
    }
    return plan(Recipe.model_validate(values | changes))


def test_steps_and_parameters_are_those_of_the_formulas() -> None:
    found = planned(optimiser={"epochs": 3, "batch": 32, "accumulate": 4})
    assert found.captions == {"train": 480, "validation": 60}
    assert (found.steps_per_epoch, found.steps) == (4, 12)  # 480 captions in 15 batches, four to an update
    # Text: 64·24 + 24 (hidden), 2·24 (layer norm), 24·16 + 16 (out), 64·16 + 16 (shortcut).
    assert found.parameters["text head"].trained == 1560 + 48 + 400 + 1040
    assert found.parameters["objective"].trained == 0 and found.parameters["objective"].fixed == 1
    assert "text backbone" not in found.parameters


def test_every_part_is_counted() -> None:
    found = planned(
        image={"tower": "small-cnn", "size": 64, "width": 8},
        text={"tower": "gru", "words": 16, "hidden": 16, "bidirectional": False},
        auxiliary={"ltd": {"target": "bow:32", "hidden": 8}},
        objective={"name": "infonce", "learn_temperature": True},
    )
    # LTD: 16·8 + 8, 8·8 + 8, 8·32 + 32; and the temperature.
    assert found.parameters["objective"].trained == 136 + 72 + 288 + 1
    # 16 units: 3 gates of (16 + 16) weights and two biases each; 16·16 + 16 in the head.
    words = found.parameters["text backbone"].trained - 3 * 16 * (16 + 16 + 2)
    assert words > 0 and words % 16 == 0
    assert found.parameters["text head"].trained == 272


def test_what_came_trained_is_told_apart_and_not_fetched() -> None:
    pytest.importorskip("torchvision")
    image = {"tower": "resnet", "depth": 18, "size": 64}
    found = planned(image=image, schedule={"frozen_epochs": 1}, optimiser={"epochs": 2, "batch": 4})
    # ResNet-18 without its classifier: 11,689,512 − (512·1000 + 1000).
    assert found.parameters["image backbone"].trained == 11_176_512
    assert found.parameters["image backbone"].first_fixed == 11_176_512


def test_memory_of_frozen_vectors_and_moments() -> None:
    found = planned()
    width = (found.parameters["image head"].trained - 16) // 16
    # 96 + 12 images of `width` numbers, 480 + 60 captions of 64, four bytes each.
    assert found.memory.features == 4 * (108 * width + 540 * 64)
    trained = found.parameters["image head"].trained + found.parameters["text head"].trained
    assert found.memory.weights == 4 * 4 * trained  # gradient, two moments, the best epoch's copy
    assert found.memory.total == sum(
        (found.memory.process, found.memory.weights, found.memory.features, found.memory.activations)
    )


def test_activations_grow_with_the_batch_and_shrink_with_chunks() -> None:
    small, large = (planned(optimiser={"epochs": 1, "batch": size}).memory.activations for size in (32, 256))
    chunked = planned(optimiser={"epochs": 1, "batch": 256, "chunk": 32}).memory.activations
    assert 8 * small < large  # the similarities grow with the square
    assert small < chunked < large / 2


def test_kept_bytes_of_a_linear_layer() -> None:
    layer = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))
    inputs = torch.randn(7, 10)
    # What the backward pass needs: the inputs of both layers, (7, 10) and (7, 20); a ReLU keeps its result, which is
    # the second input. The weights are there anyway.
    assert kept_bytes(lambda: layer(inputs), layer.parameters()) == 4 * 7 * (10 + 20)
    assert kept_bytes(lambda: layer(inputs), []) == 4 * (
        7 * 30 + 5 * 20
    )  # the second layer's weights pass on gradients


def test_peak_memory_sees_a_large_array() -> None:
    before = peak_memory()["process"]
    held = torch.ones(math.ceil(before / 4) + 25_000_000)
    assert peak_memory()["process"] >= before + 100_000_000
    del held


def test_missing_data_says_what_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    with pytest.raises(CollectionError) as caught:
        planned(data={"collection": "$VISIR_DATA/nowhere.json", "obtain": "download it to $VISIR_DATA"})
    assert f"→ download it to {tmp_path}" in str(caught.value)


def test_validating_on_what_is_trained_on_is_said_aloud() -> None:
    data = {"collection": "scenes:120?size=64", "train": "train+val", "validation": "val"}
    with pytest.warns(UserWarning, match="12 of 12 validation images are trained on too"):
        planned(data=data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned(data=data, selection={"keep": "last"})
