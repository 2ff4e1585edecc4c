"""Fitting a sparse head, epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from visir.progress import Progress
from visir.sparse.examples import SparseExamples
from visir.sparse.head import SparseHead
from visir.sparse.recipe import SparseRecipe
from visir.sparse.training import SparseTraining
from visir.training.curve import Epoch
from visir.training.folder import TrainingFolder, writing_into
from visir.training.step_log import StepLog

SAVE_SECONDS = 120.0
"""How often the state is written (it is four times W2, 375 MB of a BERT vocabulary): what a kill can cost at most."""

Report = Callable[[Epoch], None]


@dataclass(frozen=True)
class Fitted:
    """A trained head (on the CPU) and how it came about; `chosen` is the epoch (from 1) whose weights it has."""

    head: SparseHead
    curve: tuple[Epoch, ...]
    chosen: int


def fit(
    recipe: SparseRecipe,
    head: SparseHead,
    train: SparseExamples,
    validation: SparseExamples,
    *,
    folder: TrainingFolder | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Fitted:
    """Train `head` on `train`, choose the epoch on `validation`.

    - `folder`: where the state (one file, replaced in one step at most every `save_seconds`, and at the end) and the
      log of steps are written; None keeps neither
    - `resume`: go on from that state when there is one. On the CPU the result is the same, bit for bit, as without the
      interruption: what is random in a step depends on the seed and the step's place alone.
    - `report`: called after each epoch

    Raises `TrainingError` when a loss is NaN or infinite, `ConfigurationError` for what cannot be computed as asked, or
    a state of another training.
    """
    training = SparseTraining(recipe, head, train, validation)
    with writing_into(folder) as place:
        if resume and place is not None and place.state.is_file():
            training.restore(place.state)
        _train(training, recipe, place, report, save_seconds)
    return Fitted(training.chosen_head(), tuple(training.curve), training.chosen)


def _train(
    training: SparseTraining,
    recipe: SparseRecipe,
    place: TrainingFolder | None,
    report: Report | None,
    save_seconds: float,
) -> None:
    saved = time.monotonic()
    with (
        closing(StepLog(place.steps if place else None, training.steps_done)) as log,
        Progress(recipe.name, training.captions_left, "captions") as advance,
    ):

        def save(*, now: bool = False) -> None:
            nonlocal saved
            if place is not None and (now or time.monotonic() - saved >= save_seconds):
                log.flush()
                training.save(place)
                saved = time.monotonic()

        while not training.is_done:
            for steps in training.run_epoch():
                for step, captions in steps:
                    log.write(step)
                    advance(captions)
                save()
            epoch = training.close_epoch()
            save(now=training.is_done)
            if report is not None:
                report(epoch)
