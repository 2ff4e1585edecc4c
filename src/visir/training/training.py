"""A training in progress: what changes while it runs, and how it is kept."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.errors import ConfigurationError
from visir.training.averaging import RunningMean, snapshot_steps
from visir.training.batches import Share, steps_of_epoch, steps_per_epoch
from visir.training.curve import Epoch, Running
from visir.training.folder import TrainingFolder
from visir.training.freezing import Freezing
from visir.training.inputs.base import EpochRandom, TrainingData
from visir.training.inputs.negatives import HardNegatives
from visir.training.inputs.prefetch import prefetch
from visir.training.learner import E, Learner
from visir.training.loop import Loop, StepPosition
from visir.training.moving import Moved, Moving
from visir.training.normalisation import BatchStatistics
from visir.training.optimiser import build_optimiser, moments, parameters_of, restore_moments
from visir.training.precision import Precision
from visir.training.processes import Processes
from visir.training.regime import Regime
from visir.training.schedule import Timetable
from visir.training.settings import with_new_keys
from visir.training.state import add_prefix, check_same_training, load_state, save_state, strip_prefix
from visir.training.step_log import Step


class Training(Generic[E]):
    """The weights and everything that moves with them. `begin`, then `run_epoch` and `close_epoch` until `is_done`."""

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
        self.loop = Loop(learner, self.optimiser, processes, self.precision, train, recipe.seed, settings.clip)

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

    def run_epoch(self) -> Generator[tuple[Step, int], None, None]:
        """The steps of the epoch under way that are still to be done, one by one, each with its number of pairs."""
        number, began, before = len(self.curve), time.perf_counter(), self.running.seconds
        settings, processes = self.recipe.optimiser, self.processes
        shares = [
            [
                Share.of(rows, process=processes.rank, processes=processes.count, chunk=settings.chunk)
                for rows in batches
            ]
            for batches in steps_of_epoch(
                len(self.train),
                settings.batch,
                settings.accumulate,
                seed=self.recipe.seed,
                epoch=number,
                anchors=self._anchors if settings.per_image > 1 else None,
                per_image=settings.per_image,
            )
        ]
        snapshots = snapshot_steps(self.recipe.averaging, self.steps)
        todo = range(self.running.step, self.steps)
        chunks = (chunk for step in todo for share in shares[step] for chunk in share.chunks)
        draw, pin = EpochRandom(self.recipe.seed, number), processes.device.type == "cuda"
        self._mine(draw)
        self.learner.train()
        self.freezing.train(self.model, frozen=self.timetable.is_frozen(number))
        with closing(prefetch(self.train, chunks, draw, pin=pin)) as coming:
            for step in todo:
                factor = self.timetable.factor(number, step)
                update = self.loop.update(shares[step], coming, StepPosition(number, step, factor))
                if step in snapshots:
                    self.average.add(self.averaged)
                self.running.add(update.losses, update.pairs)
                self.running.seconds = before + time.perf_counter() - began
                rate = factor * settings.rate
                yield Step(self.steps_done, number + 1, update.losses, update.facts, rate), update.pairs

    def close_epoch(self) -> Epoch:
        """Validate, choose, and begin the next epoch; the weights that are judged and kept are the averaged ones."""
        self.model.eval()
        if self.swaps:
            self.average.swap_in(self.averaged)
        with self.average.inside(self.averaged):
            epoch = self.processes.run_on_first(self._judged)
            self.curve.append(epoch)
            if self.chosen == epoch.epoch:
                self.best = {name: tensor.detach().clone() for name, tensor in self.moving.state().items()}
        self.average.clear()
        self.running = Running()
        return epoch

    def save(self, folder: TrainingFolder) -> None:
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
            "scaler": self.precision.state(),
            "mined": None if self.mined is None else self.mined.epoch,
        }
        save_state(folder, tensors, {**notes, **self._identity()})

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
        self.precision.restore(notes["scaler"])
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

    def _mine(self, draw: EpochRandom) -> None:
        """Search for the hard negatives of an epoch, where it is time to; a resumed epoch has those of its begin."""
        mined = self.mined
        if mined is not None and mined.is_due(draw.epoch):
            rows = self.processes.run_on_first(lambda: self.learner.mine(self.train, mined, draw))
            mined.captions, mined.images = rows
            mined.epoch = draw.epoch

    @property
    def _anchors(self) -> NDArray[np.int64]:
        """(pairs,) the anchor of each pair."""
        anchors: NDArray[np.int64] = self.train.labels(np.arange(len(self.train)))[0].numpy()
        return anchors

    @property
    def _best_epoch(self) -> int:
        """The epoch (from 1) with the best figure of validation, the earliest of equals."""
        figure = self.recipe.selection.figure
        return 1 + int(np.argmax([epoch.validation[figure] for epoch in self.curve]))

    def _judged(self) -> Epoch:
        began = time.perf_counter()
        figures = self.learner.validate(self.validation)
        running = self.running
        self.learner.at_step(len(self.curve), self.steps - 1)  # a resumed training may not have done this step itself
        return Epoch(
            len(self.curve) + 1,
            running.means(),
            {name: float(value) for name, value in self.learner.facts().items()},
            figures,
            running.seconds + time.perf_counter() - began,
            running.pairs / running.seconds,
        )

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "examples": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads() if self.processes.device.type == "cpu" else None,
            "processes": self.processes.count,
        }
