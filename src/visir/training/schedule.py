"""The learning rate over time, and what is trained when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visir.training.recipe import Schedule


@dataclass(frozen=True)
class Timetable:
    """A schedule laid over so many epochs of so many steps."""

    # With `frozen_epochs` there are two phases. In the first, what came trained stays as it is; in the second
    # everything is tuned, the shape begins anew at `tuned_rate` times the rate, without another warm-up: the moments
    # are warm.

    schedule: Schedule
    epochs: int
    steps_per_epoch: int

    def is_frozen(self, epoch: int) -> bool:
        """Whether what came trained is held fixed in this epoch (from 0)."""
        return epoch < self.schedule.frozen_epochs

    def factor(self, epoch: int, step: int) -> float:
        """What the peak learning rate is multiplied by at a step (from 0) of an epoch (from 0)."""
        frozen = min(self.schedule.frozen_epochs, self.epochs)
        if frozen and epoch >= frozen:
            return self.schedule.tuned_rate * self._shape(epoch - frozen, step, self.epochs - frozen, 0)
        epochs = frozen or self.epochs
        return self._shape(epoch, step, epochs, min(self.warmup_steps, epochs * self.steps_per_epoch))

    @property
    def warmup_steps(self) -> int:
        """How many steps the warm-up has: ⌈share · all steps⌉, or the number in the recipe."""
        warmup = self.schedule.warmup
        return math.ceil(warmup * self.epochs * self.steps_per_epoch if warmup < 1 else warmup)

    def _shape(self, epoch: int, step: int, epochs: int, rising: int) -> float:
        """Linear from 1/w to 1 over the first w steps, then the shape, which would reach its end one step too late."""
        # Cosine: half a period (Loshchilov & Hutter 2017, eq. 5, without restarts). Per epoch, all steps of an epoch
        # have the value of its first one: ½ (1 + cos(π e / E)) in epoch e of E, from 0, without a warm-up.
        now = epoch * self.steps_per_epoch + step
        if now < rising:
            return (now + 1) / rising
        if self.schedule.per == "epoch":
            now = max(rising, epoch * self.steps_per_epoch)
        gone = (now - rising) / (epochs * self.steps_per_epoch - rising)
        match self.schedule.shape:
            case "cosine":
                return 0.5 * (1.0 + math.cos(math.pi * gone))
            case "linear":
                return 1.0 - gone
            case "step":
                return float(self.schedule.factor ** (epoch // self.schedule.step_epochs))
            case "constant":
                return 1.0
