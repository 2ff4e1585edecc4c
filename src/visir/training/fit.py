"""The driver of every training: epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

import torch

from visir.display import Displayed
from visir.progress import Progress
from visir.training.curve import Epoch
from visir.training.folder import TrainingFolder, writing_into
from visir.training.inputs.base import TrainingData
from visir.training.learner import Learner
from visir.training.processes import Processes
from visir.training.regime import Regime
from visir.training.step_log import StepLog
from visir.training.training import Training

# Ctrl-C in a training waits for the end of the step, so that the state that is saved is whole.

NOTICE = "stopping after this step; Ctrl-C again stops at once, and loses what came after the last saved state"


@contextmanager
def interrupts_held() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C is only noted; the second one raises `KeyboardInterrupt` as always."""
    # Where somebody else handles the signal, or in another thread than the first, nothing is held.
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        print(f"\nvisir: {NOTICE}", file=sys.stderr, flush=True)  # noqa: T201

    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


SAVE_SECONDS = 600.0
"""How often the state is written within a long epoch: what a kill can cost at most."""

Report = Callable[[Epoch], None]

L = TypeVar("L", bound=Learner[Any])


@dataclass(frozen=True, repr=False)
class FitResult(Displayed, Generic[L]):
    """A trained model and how it came about.

    Attributes:
        learner: Its `model` has the chosen weights, on the CPU, in evaluation mode.
        curve: Every epoch.
        chosen: The epoch (from 1) whose weights the model has.
        facts: What moved besides the weights, as it was then (temperature, multipliers).
    """

    learner: L
    curve: tuple[Epoch, ...]
    chosen: int
    facts: dict[str, float]


def fit(
    recipe: Regime,
    learner: L,
    train: TrainingData,
    validation: TrainingData,
    *,
    folder: TrainingFolder | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    save_seconds: float = SAVE_SECONDS,
    save_every_epoch: bool = True,
) -> FitResult[L]:
    """Train a model on `train` and choose the epoch on `validation`.

    Under `torchrun` or `accelerate launch` all processes call this alike; each trains on its share of every batch, with
    everybody's vectors as negatives, and gets the same result. The first one alone writes, validates and reports;
    `folder` must be one that all can read.

    Args:
        recipe: Of which it reads what a `Regime` has.
        learner: What is trained; its model is changed in place.
        train: What the weights learn from.
        validation: What the epoch is chosen by.
        folder: Where the state (one file, replaced in one step) and the log of steps are written; None keeps neither.
        resume: Go on from that state when there is one. On the CPU the result is the same, bit for bit, as without the
            interruption: what is random in a step depends on the seed and the step's place alone.
        report: Called after each epoch.
        save_seconds: How often the state is written within an epoch: what a kill can cost at most.
        save_every_epoch: Write it after each epoch too; otherwise after the last one.

    Returns:
        The learner, whose model has the weights of the chosen epoch, with the curve.

    Raises:
        TrainingError: A loss or a gradient is NaN or infinite; it names the ids of the batch.
        ConfigurationError: Something cannot be computed as asked, or the state is of another training.
        KeyboardInterrupt: Ctrl-C; it is raised at the end of the step, when the state is saved.
    """
    processes = Processes.join(recipe.device)
    training = Training(recipe, learner, train, validation, processes)
    with writing_into(folder, first=processes.is_first) as place:
        if resume and place is not None and place.state.is_file():
            training.restore(place.state)
        training.begin()
        _train(training, recipe, place, processes, report, save_seconds, save_every_epoch)
    training.choose()
    return FitResult(learner, tuple(training.curve), training.chosen, training.facts)


def _train(
    training: Training[Any],
    recipe: Regime,
    place: TrainingFolder | None,
    processes: Processes,
    report: Report | None,
    save_seconds: float,
    save_every_epoch: bool,
) -> None:
    unsaved_since = time.monotonic()
    with (
        torch.random.fork_rng([processes.device] if processes.device.type == "cuda" else []),
        closing(StepLog(place.steps if place and processes.is_first else None, training.steps_done)) as log,
        _progress(recipe.name, training.pairs_left, training.train.unit, processes) as advance,
        interrupts_held() if processes.count == 1 else nullcontext(lambda: False) as interrupted,
    ):

        def save() -> None:
            nonlocal unsaved_since
            unsaved_since = time.monotonic()
            log.flush()
            if place is not None:
                training.save(place)

        def stop() -> NoReturn:
            save()
            place_of_state = (
                f"; its state is in {place.path}: the same with resume=True (--resume) goes on" if place else ""
            )
            raise KeyboardInterrupt(f"{recipe.name}: stopped after step {training.steps_done:,}{place_of_state}")

        while not training.is_done:
            with closing(training.run_epoch()) as steps:
                for step, pairs in steps:
                    log.write(step)
                    advance(pairs)
                    if processes.is_first and time.monotonic() - unsaved_since >= save_seconds:
                        save()
                    if interrupted() and training.running.step < training.steps:
                        stop()
            epoch = training.close_epoch()
            if save_every_epoch or training.is_done:
                processes.run_on_first(save)
            if report is not None and processes.is_first:
                report(epoch)
            if interrupted() and not training.is_done:
                stop()


def _progress(title: str, total: int, unit: str, processes: Processes) -> AbstractContextManager[Callable[[int], None]]:
    return Progress(title, total, unit) if processes.is_first else nullcontext(lambda pairs: None)
