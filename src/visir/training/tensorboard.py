"""TensorBoard: the log of steps and the curve as event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import orjson

from visir.errors import require
from visir.training.folder import STATE_FILE
from visir.training.state import load_state
from visir.training.step_log import STEPS_FILE, Epoch, Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"
EVENTS = "events.out.tfevents.*"
"""What its files are called."""


class TensorBoard:
    """Scalars of every step and of every epoch, both over the number of steps: `with TensorBoard(out) as board`."""

    # `board` is called after each epoch, with its point of the curve. Event files are a copy of `steps.jsonl` and of
    # the curve: a training that goes on writes them anew from its beginning into a new file, and tells readers to pass
    # over what the files before it say. So no point is shown twice and none is missing, wherever it was interrupted.

    def __init__(self, out: Path) -> None:
        require("tensorboard", extra="train", purpose="--tensorboard")
        self._out = out
        self._writer: SummaryWriter | None = None
        self._read = 0
        self._last: dict[int, int] = {}

    def __call__(self, epoch: Epoch) -> None:
        """Write what came since the last call."""
        epochs = [epoch]
        if self._writer is None:
            epochs = [*self._behind(epoch), epoch]
            self._writer = self._begin()
        for step in self._new_steps():
            self._last[step.epoch] = step.step
            self._write("step", {**step.losses, **step.facts, "learning rate": step.learning_rate}, step.step)
        for point in epochs:
            at = self._last[point.epoch]
            self._write("epoch", {**point.losses, **point.facts, "captions per second": point.rate}, at)
            self._write("validation", point.validation, at)
        self._writer.flush()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def _begin(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        # Readers pass over what an earlier process wrote: every point is written anew.
        return SummaryWriter(str(self._out / FOLDER), purge_step=0)

    def _behind(self, epoch: Epoch) -> list[Epoch]:
        """The epochs before the first one that this process trained: those of the state from which it went on."""
        if epoch.epoch == 1:
            return []
        curve = load_state(self._out / STATE_FILE)[1]["curve"]
        return [Epoch(**values) for values in curve if values["epoch"] < epoch.epoch]

    def _new_steps(self) -> list[Step]:
        with (self._out / STEPS_FILE).open("rb") as log:
            log.seek(self._read)
            steps = [Step(**orjson.loads(line)) for line in log]
            self._read = log.tell()
        return steps

    def _write(self, group: str, values: Mapping[str, float], step: int) -> None:
        assert self._writer is not None
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
