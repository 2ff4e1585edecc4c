"""The driver of every training: epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.display import Displayed
from visir.encoders.towers.base import Inputs, PromptInputs, Tower, to_device
from visir.progress import Progress
from visir.training.folder import TrainingFolder, writing_into
from visir.training.inputs.base import EpochRandom, InputSource, Mined, Side, TrainingData, TrainingExamples
from visir.training.learner import Learner
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.objectives.objective import Objective
from visir.training.processes import Processes
from visir.training.recipe import Regime
from visir.training.trained import Epoch, StepLog
from visir.training.training import Training
from visir.training.validation import encode_source, search, validate

# The learner of dual encoders: two towers under a contrastive objective.

K = TypeVar("K", bound=str)


class DualEncoder(Learner[TrainingExamples]):
    """Two towers whose vectors an objective compares. The towers are the model that is kept; the objective is not.

    Args:
        towers: The tower of the anchors and that of the positives, in this order, by the names under which the recipe
            gives them learning rates: "image" and "text", say. They are changed in place.
        objective: Of the training.
        tasks: What validation calls the two directions, see `visir.training.validation.validate`.
    """

    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup or objective.temperature"

    def __init__(
        self, towers: Mapping[K, Tower], objective: Objective, tasks: tuple[str, str] = ("i2t", "t2i")
    ) -> None:
        super().__init__()
        self.towers: dict[str, Tower] = {str(name): tower for name, tower in towers.items()}
        self._model = nn.ModuleDict(self.towers)
        anchor, positive = self.towers
        self._names: dict[Side, str] = {"anchor": anchor, "positive": positive}
        self.objective, self.tasks = objective, tasks

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the towers."""
        return self._model

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: the towers by their names, and "objective"."""
        return {**self.towers, "objective": self.objective}

    @property
    def local_loss(self) -> bool:
        """See `Learner.local_loss`."""
        return self.objective.local_loss

    @property
    def pretrained(self) -> list[nn.Module]:
        """See `Learner.pretrained`."""
        return [
            module
            for tower in self.towers.values()
            if tower.backbone is not None
            for module in tower.backbone.pretrained_modules()
        ]

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: unit vectors, the norm taken in float32 (or wider) under every precision. Of texts in
        several prompts, the mean, which is a unit vector again."""
        if isinstance(inputs, PromptInputs):
            mean = torch.stack([self.vectors(side, of_prompt) for of_prompt in inputs.values()]).mean(0)
            return functional.normalize(mean, dim=-1)
        with self.precision.autocast():
            vectors = self._model[self._names[side]](inputs)
        return functional.normalize(self.precision.widen(vectors), dim=-1)

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`."""
        losses: Losses = self.objective(pairs, everyone, weight)
        return losses

    def after_step(self, parts: Mapping[str, float]) -> None:
        """See `Learner.after_step`."""
        self.objective.ascend(parts)

    def facts(self) -> Mapping[str, float | Tensor]:
        """See `Learner.facts`."""
        return self.objective.facts()

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """See `visir.training.validation.validate`."""
        anchors = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        positives = encode_source(examples.positives, partial(self._vectors_of, "positive"))
        return validate(anchors, positives, examples.anchor_rows, self.tasks)

    def mine(self, train: TrainingExamples, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the towers find in the training data as they are; see `mining.search`."""
        state = self._model.training
        self._model.eval()
        sides: dict[Side, Any] = {}
        of_sides: tuple[tuple[Side, InputSource, Any], ...] = (
            ("anchor", train.anchors, mined.first_pairs),
            ("positive", train.positives, np.arange(len(train))),
        )
        for side, source, keys in of_sides:
            of, seen = partial(self._vectors_of, side), keys if mined.as_trained else None
            sides[side] = encode_source(source, of, draw, seen)
        self._model.train(state)
        return search(mined, sides["anchor"], sides["positive"])

    def _vectors_of(self, side: Side, inputs: Inputs) -> Tensor:
        return self.vectors(side, to_device(inputs, self.precision.device))


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
