"""Fitting two towers, epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from visir.encoders.towers.base import Tower
from visir.progress import Progress
from visir.records import Modality
from visir.training.curve import Epoch
from visir.training.folder import TrainingFolder, writing_into
from visir.training.inputs.base import TrainingExamples
from visir.training.objectives.objective import Objective
from visir.training.processes import Processes
from visir.training.regime import Regime
from visir.training.step_log import StepLog
from visir.training.training import Training

SAVE_SECONDS = 600.0
"""How often the state is written within a long epoch, beside the end of each: what a kill can cost at most."""

Report = Callable[[Epoch], None]


@dataclass(frozen=True)
class FitResult:
    """Trained towers (on the CPU, in evaluation mode) and how they came about.

    - `curve`: every epoch; `chosen`: the one (from 1) whose weights the towers have
    - `facts`: what the objective stood at then (temperature, multipliers)
    """

    towers: dict[Modality, Tower]
    curve: tuple[Epoch, ...]
    chosen: int
    facts: dict[str, float]


def fit(
    recipe: Regime,
    towers: Mapping[Modality, Tower],
    objective: Objective,
    train: TrainingExamples,
    validation: TrainingExamples,
    *,
    folder: TrainingFolder | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    save_seconds: float = SAVE_SECONDS,
    unit: str = "captions",
) -> FitResult:
    """Train `towers` under `objective` on `train`, choose the epoch on `validation`.

    Of the recipe it reads what a `Regime` has; the towers are what was built of the rest, and are changed in place.

    - `folder`: where the state (one file, replaced in one step after each epoch, and every `save_seconds` within one)
      and the log of steps are written; None keeps neither
    - `resume`: go on from that state when there is one. On the CPU the result is the same, bit for bit, as without the
      interruption: what is random in a step depends on the seed and the step's place alone.
    - `report`: called after each epoch; `unit`: what the progress counts, in the plural

    Under `torchrun` or `accelerate launch` all processes call this alike; each trains on its share of every batch, with
    everybody's vectors as negatives, and gets the same result. The first one alone writes, validates and reports;
    `folder` must be one that all can read.

    Raises `TrainingError`, naming the captions of the batch, when a loss or a gradient is NaN or infinite, and
    `ConfigurationError` for what cannot be computed as asked, or a state of another training.
    """
    processes = Processes.join(recipe.device)
    training = Training(recipe, towers, objective, train, validation, processes)
    with writing_into(folder, first=processes.is_first) as place:
        if resume and place is not None and place.state.is_file():
            training.restore(place.state)
        training.begin()
        _train(training, recipe, place, processes, report, save_seconds, unit)
    return FitResult(training.chosen_towers(), tuple(training.curve), training.chosen, training.facts)


def _train(
    training: Training,
    recipe: Regime,
    place: TrainingFolder | None,
    processes: Processes,
    report: Report | None,
    save_seconds: float,
    unit: str,
) -> None:
    unsaved_since = time.monotonic()
    with (
        torch.random.fork_rng([processes.device] if processes.device.type == "cuda" else []),
        closing(StepLog(place.steps if place and processes.is_first else None, training.steps_done)) as log,
        _progress(recipe.name, training.captions_left, unit, processes) as advance,
    ):

        def save() -> None:
            nonlocal unsaved_since
            unsaved_since = time.monotonic()
            log.flush()
            if place is not None:
                training.save(place)

        while not training.is_done:
            with closing(training.run_epoch()) as steps:
                for step, captions in steps:
                    log.write(step)
                    advance(captions)
                    if processes.is_first and time.monotonic() - unsaved_since >= save_seconds:
                        save()
            epoch = training.close_epoch()
            processes.first_tells(save)
            if report is not None and processes.is_first:
                report(epoch)


def _progress(what: str, total: int, unit: str, processes: Processes) -> AbstractContextManager[Callable[[int], None]]:
    return Progress(what, total, unit) if processes.is_first else nullcontext(lambda captions: None)
