"""Steps of training on a GPU that is not there (`tests/fake_cuda.py`), and their backward pass on the device "meta"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from planted import TEXT, objective, planted, recipe, towers
from torch import Tensor

import fake_cuda
from visir.encoders.towers.base import Head, HeadSpec, Tower, to_device
from visir.encoders.towers.resnet import ResNetBackbone
from visir.training.inputs import TrainingExamples
from visir.training.learner import DualEncoder
from visir.training.loop import Training, TrainingError, update
from visir.training.optimiser import Precision, parameters_of
from visir.training.processes import Processes, Share

OBJECTIVES: dict[str, dict[str, Any]] = {
    "infonce": {"objective": {"name": "infonce", "temperature": 0.07, "learn_temperature": True}},
    "sigmoid": {"objective": {"name": "sigmoid"}},
    "triplet": {"objective": {"name": "triplet"}},
    "ltd": {"auxiliary": {"ltd": {"hidden": 8}}},
}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_cuda.FakeCuda]:
    with fake_cuda.gpu(monkeypatch) as mode:
        yield mode


def loop_of(device: str, train: TrainingExamples, **changes: Any) -> Training[Any]:
    """A training, its weights on the device."""
    settings = recipe(**changes)
    learner = DualEncoder(towers(hidden=(32,)), objective(settings))
    training = Training(settings, learner, train, train, Processes(0, 1, torch.device(device)))
    learner.train()
    return training


def step(loop: Training[Any], number: int = 0, chunk: int | None = None) -> dict[str, float]:
    """One update by the first 32 pairs."""
    share = Share.of(np.arange(32), chunk=chunk)
    batches = (loop.train.batch(rows, None) for rows in share.chunks)
    losses, facts = update(loop, [share], batches, number)
    return {**losses, **facts}


def gradients(monkeypatch: pytest.MonkeyPatch, loop: Training[Any]) -> None:
    """In the place of the backward pass, which would ask the driver: every weight gets a gradient."""

    def backward(self: Tensor) -> None:
        assert self.device.type == "cuda" and self.requires_grad
        for weight in parameters_of(loop.optimiser):
            weight.grad = torch.zeros_like(weight)

    monkeypatch.setattr(Tensor, "backward", backward)


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_waits_for_the_gpu_once(
    gpu: fake_cuda.FakeCuda, monkeypatch: pytest.MonkeyPatch, name: str, precision: str
) -> None:
    loop = loop_of("cuda:0", planted(20, seed=1, targets=True), precision=precision, **OBJECTIVES[name])
    gradients(monkeypatch, loop)
    step(loop)
    before, done = gpu.reads, gpu.operations
    step(loop, 1)
    assert gpu.reads - before == 1 and gpu.operations > done + 20
    assert all(weight.device.type == "cuda" for weight in parameters_of(loop.optimiser))


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_moved_ahead_a_step_is_what_it_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    train = planted(20, seed=1, targets=True)
    plain, ahead = (loop_of("cpu", train, **OBJECTIVES[name]) for _ in range(2))
    expected = [step(plain, number) for number in range(4)]
    monkeypatch.setattr(Training, "moves_ahead", True)
    assert [step(ahead, number) for number in range(4)] == expected
    for one, other in zip(parameters_of(plain.optimiser), parameters_of(ahead.optimiser), strict=True):
        assert torch.equal(one, other)


def test_moved_ahead_what_is_not_finite_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Training, "moves_ahead", True)
    loop = loop_of("cpu", planted(20, seed=1))
    step(loop)
    weights = [weight.detach().clone() for weight in parameters_of(loop.optimiser)]
    loop.train.anchors._views[0][3] = np.nan  # type: ignore[attr-defined]
    with pytest.raises(TrainingError, match="the loss is nan"):
        step(loop, 1)
    assert all(map(torch.equal, weights, parameters_of(loop.optimiser)))


def test_own_towers_and_their_gradients_stay_on_their_device() -> None:
    # On "meta" nothing is computed either, and the backward pass needs no driver.
    backbone = ResNetBackbone(depth=18, weights="random", size=64)
    sides = {"image": Tower(backbone, Head(HeadSpec(512, 16))), "text": Tower(None, Head(HeadSpec(TEXT, 16)))}
    learner = DualEncoder(sides, objective(recipe(**OBJECTIVES["infonce"]))).to("meta")
    learner.prepare(Precision("float32", torch.device("cpu")))
    learner.train()
    pixels = backbone.collate([backbone.prepare(Image.new("RGB", (70, 60)))] * 4)
    images = learner.vectors("anchor", to_device(pixels, "meta"))
    texts = learner.vectors("positive", torch.ones(4, TEXT, device="meta"))
    (images @ texts.T).sum().backward()
    devices = [None if weight.grad is None else weight.grad.device.type for weight in learner.model.parameters()]
    assert len(devices) > 60 and set(devices) == {"meta"}
