"""What each of two processes runs in test_processes.py: `torchrun two_processes.py FOLDER CASE …`."""

from __future__ import annotations

import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from planted import objective, planted, recipe, towers
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.towers.base import Inputs
from visir.errors import VisirError
from visir.threads import launched
from visir.training import processes as sharing
from visir.training.examples import right_pairs
from visir.training.inputs import EpochRandom, HardNegatives, InputSource, Mined, TrainingExamples
from visir.training.learner import DualEncoder
from visir.training.loop import FitResult, fit
from visir.training.processes import GradientMean, Processes, Share
from visir.training.recipe import Recipe
from visir.training.similarities import OwnQueries, VectorPairs
from visir.training.trained import Epoch

TRAIN, VALIDATION = planted(61, seed=1, views=2, targets=True), planted(30, seed=2)
LOSSES: dict[str, Any] = {
    "objective": {"name": "infonce", "learn_temperature": True},
    "auxiliary": {"ltd": {"hidden": 16}},
}
SHORT = {"epochs": 3, "batch": 25, "rate": 0.01}  # 122 captions: batches of 24 and 25, so unequal shares too
CASES: dict[str, dict[str, Any]] = {
    "constraint": {**LOSSES, "optimiser": SHORT},
    "dual": {**LOSSES, "auxiliary": {"ltd": {"join": "dual", "hidden": 16}}, "optimiser": SHORT},
    "chunks": {**LOSSES, "optimiser": {**SHORT, "chunk": 5}},
    "accumulate": {**LOSSES, "optimiser": {**SHORT, "accumulate": 3}, "averaging": {"snapshots": 2, "share": 1.0}},
    "sigmoid": {"objective": {"name": "sigmoid"}, "optimiser": {**SHORT, "chunk": 5}},
    "several": {"objective": {"name": "multi-positive"}, "optimiser": {**SHORT, "per_image": 2}},
    "hard": {
        "objective": {"name": "infonce"},
        "optimiser": {**SHORT, "chunk": 7},
        "negatives": {"mined": {"count": 2, "nearest": 4, "every": 2}},
    },
    "triplet": {"objective": {"name": "triplet"}, "optimiser": SHORT},
    "tiny": {**LOSSES, "optimiser": {**SHORT, "epochs": 2, "batch": 2}},
    "last of all": {**LOSSES, "optimiser": {**SHORT, "epochs": 1, "batch": 2}, "schedule": {"warmup": 0}},
}
LOCAL = ("constraint", "sigmoid", "several", "hard", "triplet", "last of all")
CASES |= {
    f"{name}, local loss": {**CASES[name], "objective": {**CASES[name]["objective"], "local_loss": True}}
    for name in LOCAL
}
ROWS = 9
"""Of the batch whose gradients are computed in double precision: five of the first process, four of the second."""


def run(case: str, folder: Path | None = None, **options: Any) -> FitResult[DualEncoder]:
    settings = recipe(**CASES[case])
    # Three captions in batches of two: the second batch has one, fewer than there are processes.
    kind = case.removesuffix(", local loss")
    train = small() if kind == "last of all" else hard(settings) if kind == "hard" else TRAIN
    sides = towers(hidden=(32,), seed=launched()[0])  # the first process's weights are everybody's
    return fit(settings, DualEncoder(sides, objective(settings)), train, VALIDATION, folder=folder, **options)


def hard(settings: Recipe) -> TrainingExamples:
    """The training pairs with hard negatives that the towers search for."""
    assert settings.negatives.mined is not None
    images, owners = int(TRAIN.anchor_rows.max()) + 1, TRAIN.anchor_rows
    right = right_pairs(owners, TRAIN.ids, np.empty((0, 2), np.int64), images)
    first = np.searchsorted(owners, np.arange(images))
    return replace(TRAIN, negatives=HardNegatives(mined=Mined(settings.negatives.mined, first, right)))


def small() -> TrainingExamples:
    return planted(3, seed=1, per_image=1, targets=True)


def weights(fitted: FitResult[DualEncoder]) -> dict[str, Tensor]:
    return {
        f"{side}.{name}": one
        for side, tower in fitted.learner.towers.items()
        for name, one in tower.state_dict().items()
    }


def gradients(case: str, processes: Processes) -> dict[str, Tensor]:
    """In float64, the loss of a batch and its gradients by the vectors of both sides and by what the objective learns.

    Of one of two processes: by its own vectors; the mean of its part of the loss and of the objective's gradients.
    """
    share = Share.of(np.arange(ROWS), process=processes.rank, processes=processes.count)
    own = slice(share.first(processes.rank), share.first(processes.rank) + share.own)
    drawn = torch.randn(2, ROWS, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    leaves = [functional.normalize(side, dim=1)[own].requires_grad_() for side in drawn]
    anchors, positives = processes.gather(torch.cat(leaves, dim=1), share.sizes, both_ways=True).split(16, dim=1)
    queries = OwnQueries(own.start, share.own, 2) if processes.count == 2 else None
    settings = recipe(**CASES[case])
    loss = objective(settings).contrastive.double()
    total = loss(VectorPairs(anchors, positives, torch.tensor([0, 1, 1, 2, 3, 4, 4, 0, 5]), queries=queries))
    total.backward()
    learnt = {name: one.grad for name, one in loss.named_parameters() if one.grad is not None}
    shared = {"loss": total.detach(), **learnt}
    shared = {name: processes.sum(value) / processes.count for name, value in shared.items()}
    sides = {"anchors": leaves[0].grad, "positives": leaves[1].grad}
    return {**shared, **{name: grad / processes.count for name, grad in sides.items() if grad is not None}}


class Stacked(nn.Module):
    """Layers one after the other; the spare one is used when it is said."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
        self.spare = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, vectors: Tensor, *, spare: bool) -> Tensor:
        for layer in self.layers:
            vectors = layer(vectors).tanh()
        return (self.spare(vectors) if spare else vectors).square().sum() * self.scale


def means(folder: Path) -> None:
    """Gradients that are averaged while the backward pass runs, beside those that are averaged one by one behind it."""
    processes = Processes.join("cpu")
    torch.manual_seed(0)
    net = Stacked()
    sharing.BUCKET = 70  # a layer has 72 numbers
    mean = GradientMean(list(net.parameters()), processes.count)
    inputs = torch.randn(5, 8, generator=torch.Generator().manual_seed(processes.rank))
    found: dict[str, Tensor] = {}
    # The spare layer stands behind the others, so its bucket is the first; in the third update it comes unexpected.
    for update, (spare, frozen) in enumerate([(False, False), (False, False), (True, False), (False, True)]):
        net.layers[0].requires_grad_(not frozen)
        net.zero_grad()
        net(inputs, spare=spare).backward()
        for name, weight in net.named_parameters():
            if weight.grad is not None:
                found[f"{update} {name} expected"] = processes.sum(weight.grad.clone()) / processes.count
        net.zero_grad()
        with mean.sending():
            net(inputs, spare=spare).backward()
            found[f"sent {update}"] = torch.tensor(mean.sent)
        mean.finish()
        for name, weight in net.named_parameters():
            if weight.grad is not None:
                found[f"{update} {name} found"] = weight.grad.clone()
    save_file(found, folder / f"means-{processes.rank}.safetensors")
    assert mean.sent == 0 and not any(weight._post_accumulate_grad_hooks for weight in net.parameters())
    net.zero_grad()
    try:
        with mean.sending():
            for _ in range(2):
                net(inputs, spare=False).backward()
    except VisirError as fault:
        (folder / f"twice-{processes.rank}.txt").write_text(str(fault))
    mean.finish()
    sharing.BUCKET = 1 << 23


class Spoilt:
    """A source that works in the first epoch; then it fails in the second process, or gives NaN for caption 7."""

    def __init__(self, source: InputSource, *, fails: bool) -> None:
        self.source, self.fails = source, fails

    def __len__(self) -> int:
        return len(self.source)

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        vectors = self.source.batch(rows, draw, keys)
        if draw is not None and draw.epoch == 1:
            if self.fails and launched()[0] == 1:
                raise RuntimeError("the second process failed")
            assert isinstance(vectors, Tensor)
            if not self.fails:
                vectors[rows == 7] = torch.nan
        return vectors


def fail(folder: Path) -> None:
    """The second process fails in the second epoch; the first one has kept the state of every step."""
    settings = recipe(**CASES["constraint"])
    broken = replace(TRAIN, positives=Spoilt(TRAIN.positives, fails=True))
    sides, loss = towers(hidden=(32,)), objective(settings)
    fit(settings, DualEncoder(sides, loss), broken, VALIDATION, folder=folder / "failed", save_seconds=0.0)


def work(folder: Path) -> None:
    """Every case; then the training that failed goes on; then one that meets NaN, and one whose disk is full."""
    rank = launched()[0]
    # Not accelerate's "cpu:0": frozen encoders are loaded for it, and onnxruntime knows "cpu" alone.
    assert Processes.join("cpu").device == torch.device("cpu")
    means(folder)
    for name in LOCAL:
        case = f"{name}, local loss"
        save_file(gradients(case, Processes.join("cpu")), folder / f"{case}-gradients-{rank}.safetensors")
    for case in CASES:
        save_file(weights(run(case, folder / case)), folder / f"{case}-{rank}.safetensors")
    save_file(weights(run("constraint", folder / "failed", resume=True)), folder / f"failed-{rank}.safetensors")
    settings = recipe(**CASES["chunks"])
    broken = replace(TRAIN, positives=Spoilt(TRAIN.positives, fails=False))
    for name, train, report in (("nan", broken, None), ("full", TRAIN, fill)):
        try:
            learner = DualEncoder(towers(hidden=(32,)), objective(settings))
            fit(settings, learner, train, VALIDATION, folder=folder / name, report=report)
        except VisirError as fault:
            (folder / f"{name}-{rank}.txt").write_text(f"{type(fault).__name__}: {fault}")


def fill(epoch: Epoch) -> None:
    """As if the disk were full from now on: no file may grow beyond 16 KiB. The log is shorter, the state longer."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, resource.RLIM_INFINITY))


if __name__ == "__main__":
    {"fail": fail, "work": work}[sys.argv[1]](Path(sys.argv[2]))
