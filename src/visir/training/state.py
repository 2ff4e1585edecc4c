"""A training in progress: what moves in it, and its state, one file that is replaced in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from visir.errors import NO_ROOM, ConfigurationError, VisirError, raise_faults
from visir.storage import FolderChange, FolderKind, changing
from visir.storage.disk import system_error
from visir.training.inputs import EpochRandom, HardNegatives, TrainingData
from visir.training.learner import E, Learner
from visir.training.optimiser import (
    BatchStatistics,
    Freezing,
    Moved,
    Moving,
    Precision,
    RunningMean,
    Timetable,
    build_optimiser,
    moments,
    parameters_of,
    restore_moments,
)
from visir.training.processes import GradientMean, Processes, steps_per_epoch
from visir.training.recipe import Regime
from visir.training.settings import with_new_keys
from visir.training.trained import STATE_FILE, Epoch


@dataclass
class Running:
    """The epoch that is under way."""

    step: int = 0  # steps so far
    pairs: int = 0  # pairs so far
    sums: dict[str, float] = field(default_factory=dict)  # of the losses over pairs
    seconds: float = 0.0  # so far

    def add(self, losses: Mapping[str, float], pairs: int) -> None:
        """Count a step, whose losses are means over its pairs."""
        self.step += 1
        self.pairs += pairs
        for name, value in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * pairs

    def means(self) -> dict[str, float]:
        """The losses over all pairs so far."""
        return {name: value / self.pairs for name, value in self.sums.items()}


class Training(Generic[E]):
    """What moves in a training: the weights, and everything beside them; `visir.training.loop` moves it."""

    def __init__(
        self, recipe: Regime, learner: Learner[E], train: TrainingData, validation: E, processes: Processes
    ) -> None:
        self.recipe, self.train, self.validation, self.processes = recipe, train, validation, processes
        self.precision = Precision(recipe.precision, processes.device)
        self.learner = learner.to(processes.device)
        self.learner.prepare(self.precision)
        self.model = learner.model
        self.freezing = Freezing(learner.pretrained)
        self.freezing.check_trainable(learner, recipe.schedule.frozen_epochs)
        self.moving, self.all_moving = Moving(self.model), Moving(learner)
        self.statistics = BatchStatistics(self.model, recipe, processes, len(train))
        settings = recipe.optimiser
        self.optimiser = build_optimiser(learner.parts(), settings, recipe.rates)
        self.steps = steps_per_epoch(len(train), settings.batch, settings.accumulate)
        self.timetable = Timetable(recipe.schedule, settings.epochs, self.steps)
        self.average = RunningMean()
        self.swaps = recipe.averaging.continue_from == "average"
        self.averaged = Moved(parameters_of(self.optimiser)) if self.swaps else self.moving
        self.running = Running()
        self.curve: list[Epoch] = []
        self.best: dict[str, Tensor] = {}
        negatives = getattr(train, "negatives", None)
        self.mined = negatives.mined if isinstance(negatives, HardNegatives) else None
        moved = {id(weight) for weight in parameters_of(self.optimiser)}
        self.mean = GradientMean([weight for weight in learner.parameters() if id(weight) in moved], processes.count)

    def begin(self) -> None:
        """Make sure that all processes begin with the same weights, at the same step."""
        self.processes.broadcast(self.learner.state_dict().values())
        if self.processes.run_on_first(lambda: self.steps_done) != self.steps_done:
            raise ConfigurationError(
                f"process {self.processes.rank} did not find the state from which the first one goes on.",
                hint="--out must be a folder that all machines share",
            )

    @property
    def steps_done(self) -> int:
        """Updates of the weights so far."""
        return len(self.curve) * self.steps + self.running.step

    @property
    def pairs_left(self) -> int:
        """How many pairs are still to be trained on, when nothing stops it early."""
        return (self.recipe.optimiser.epochs - len(self.curve)) * len(self.train) - self.running.pairs

    @property
    def is_done(self) -> bool:
        """Whether all epochs were run, or patience ran out. A function of the curve, so that it survives a restart."""
        if len(self.curve) == self.recipe.optimiser.epochs:
            return True
        patience = self.recipe.selection.patience
        return patience is not None and bool(self.curve) and len(self.curve) - self._best_epoch >= patience

    @property
    def chosen(self) -> int:
        """The epoch (from 1) whose weights are kept."""
        return len(self.curve) if self.recipe.selection.keep == "last" else self._best_epoch

    @property
    def facts(self) -> dict[str, float]:
        """What the objective stood at after the chosen epoch."""
        return self.curve[self.chosen - 1].facts

    @property
    def moves_ahead(self) -> bool:
        """Whether the weights are moved before the CPU has read the losses, so that a GPU goes on computing."""
        # A fused optimiser asks the device itself whether the gradient is finite. A scaled one, and AdamP, ask the CPU.
        fused = all(group.get("fused") for group in self.optimiser.param_groups)
        return self.processes.device.type == "cuda" and fused and not self.precision.is_scaled

    @property
    def anchors(self) -> NDArray[np.int64]:
        """(pairs,) the anchor of each pair."""
        anchors: NDArray[np.int64] = self.train.labels(np.arange(len(self.train)))[0].numpy()
        return anchors

    def mine(self, draw: EpochRandom) -> None:
        """Search for the hard negatives of an epoch, where it is time to; a resumed epoch has those of its begin."""
        mined = self.mined
        if mined is not None and mined.is_due(draw.epoch):
            rows = self.processes.run_on_first(lambda: self.learner.mine(self.train, mined, draw))
            mined.captions, mined.images = rows
            mined.epoch = draw.epoch

    def save(self, change: FolderChange) -> None:
        """Write everything that a later process needs to go on as if nothing had been."""
        tensors = {
            **add_prefix("now", self.all_moving.state()),
            **add_prefix("best", self.best),
            **add_prefix("average", self.average.mean),
            **add_prefix("optimiser", moments(self.optimiser)),
            **add_prefix("mined", {} if self.mined is None else self.mined.tensors()),
        }
        notes = {
            "curve": [asdict(epoch) for epoch in self.curve],
            "running": asdict(self.running),
            "snapshots": self.average.count,
            "scaler": self.precision.scaler.state_dict(),
            "mined": None if self.mined is None else self.mined.epoch,
        }
        save_state(change, tensors, {**notes, **self._identity()})

    def restore(self, path: Path) -> None:
        """Go back to where `save` was called."""
        tensors, notes = load_state(path)
        was = {**notes, "recipe": with_new_keys(self.recipe, notes["recipe"])}
        check_same_training(path, was, self._identity())
        device = self.processes.device
        self.all_moving.load(strip_prefix("now", tensors))
        self.best = {name: tensor.to(device) for name, tensor in strip_prefix("best", tensors).items()}
        self.average.mean = {name: tensor.to(device) for name, tensor in strip_prefix("average", tensors).items()}
        self.average.count = notes["snapshots"]
        restore_moments(self.optimiser, strip_prefix("optimiser", tensors))
        self.precision.scaler.load_state_dict(notes["scaler"])
        if self.mined is not None and not self.mined.settings.model:
            self.mined.restore(strip_prefix("mined", tensors), notes["mined"])
        self.curve = [Epoch(**epoch) for epoch in notes["curve"]]
        self.running = Running(**notes["running"])

    def choose(self) -> None:
        """Give the model the chosen weights, on the CPU and in evaluation mode, all of them trainable again."""
        self.statistics.release()
        self.moving.load(self.best)
        self.freezing.thaw()
        self.model.cpu().eval()

    @property
    def _best_epoch(self) -> int:
        """The epoch (from 1) with the best figure of validation, the earliest of equals."""
        figure = self.recipe.selection.figure
        return 1 + int(np.argmax([epoch.validation[figure] for epoch in self.curve]))

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "examples": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads() if self.processes.device.type == "cpu" else None,
            "processes": self.processes.count,
        }


# The file.


SAVING = "saving"
"""Where safetensors writes the state, under a name of its own first."""
_SAFETENSORS = ".tmp??????"


@contextmanager
def writing_into(folder: Path) -> Iterator[FolderChange]:
    """A folder in which nothing counts but the state, to go on from."""
    busy = VisirError(
        f"{folder}: another process is training into this folder.", code="another-process-training-folder"
    )
    with changing(folder, FolderKind("training", "a training"), busy=busy, resume=True) as change:
        yield change
        change.abandon()


def save_state(change: FolderChange, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (plain values) as one safetensors file; the notes are its metadata."""
    # One file, so that tensors and notes can never be of different steps. A full disk leaves the last one whole and
    # raises `VisirError`.
    try:
        change.subfolder(SAVING, _SAFETENSORS)
        with change.replacing(STATE_FILE, counts=False, through=SAVING) as path:
            apart, text = _apart(tensors), orjson.dumps(notes).decode()
            save_file(apart, str(path), metadata={"notes": text, "hash": _hash(apart, text)})
    except (OSError, SafetensorError) as fault:
        size = 1 + sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        state = change.folder / STATE_FILE
        remains = "the one written before is whole" if state.is_file() else "there is none yet"
        raise VisirError(
            f"{state}: the state of the training could not be written ({fault}); {remains}.",
            hint=f"it takes {-(-size // 2**20):,} MiB beside the last one: make room, then go on with --resume"
            if is_full(fault)
            else "mend that, then go on with --resume",
        ) from fault


def is_full(fault: Exception) -> bool:
    """Whether room was short."""
    cause = system_error(fault)
    return cause is not None and cause.errno in NO_ROOM


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, none sharing memory with another (tied weights), as the format wants them."""
    storages: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if (memory := plain.untyped_storage().data_ptr()) in storages:
            plain = plain.clone()
        storages.add(memory)
        result[name] = plain
    return result


def _hash(tensors: Mapping[str, Tensor], notes: str) -> str:
    """Over what a state holds: no manifest names the file, which is gone when the training is done."""
    digest = hashlib.blake2b(notes.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_state` wrote."""
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            metadata = stored.metadata()
            if metadata.get("hash", expected := _hash(tensors, metadata["notes"])) != expected:
                raise ValueError("its hash does not fit")
            notes: dict[str, Any] = orjson.loads(metadata["notes"])
    except (SafetensorError, ValueError, TypeError, KeyError) as fault:
        raise VisirError(
            f"{path}: the state of the training is damaged ({fault}).",
            hint="it was altered after it was written: bring back a copy, or remove it and train anew",
            code="state-training-damaged",
        ) from fault
    return tensors, notes


def check_same_training(path: Path, stored: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse the state of another training."""
    faults = [
        f"{name}: interrupted with {was!r}, now {now!r}"
        for name, was, now in _differences({name: stored.get(name) for name in expected}, expected, "")
    ]
    raise_faults(
        ConfigurationError,
        f"{path}: this is the state of another training",
        faults,
        hint="put these back to resume, or train into another folder (--out)",
    )


def _differences(first: object, second: object, name: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from _differences(first.get(key), second.get(key), f"{name}.{key}" if name else str(key))
    elif first != second:
        yield name, first, second


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix` and a slash, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with `prefix` and a slash before their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
