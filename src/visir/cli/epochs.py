"""The lines that a training prints: one per epoch, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visir.training.curve import Epoch


class EpochLines:
    """Losses, what the objective stands at, validation rsum, rate and time left; within 100 columns."""

    def __init__(self, epochs: int, unit: str = "captions") -> None:
        self._epochs, self._unit = epochs, unit
        self._best = float("-inf")
        self._is_begun = False

    def of(self, epoch: Epoch) -> Iterator[str]:
        """The line of an epoch, before the first one the heads of the columns. A star marks the best rsum so far."""
        rsum = epoch.validation["rsum"]
        left = (self._epochs - epoch.epoch) * epoch.seconds
        cells = {
            "epoch": f"{epoch.epoch}/{self._epochs}",
            **_losses(epoch.losses, epoch.facts),
            "val rsum": f"{rsum:.1f}{'*' if rsum > self._best else ' '}",
            f"{self._unit}/s": f"{epoch.rate:,.0f}",
            "left": _time(left),
        }
        widths = {name: max(len(name), 7) for name in cells}
        if not self._is_begun:
            yield " ".join(f"{name:>{width}}" for name, width in widths.items())
        self._is_begun = True
        self._best = max(self._best, rsum)
        yield " ".join(f"{cells[name]:>{width}}" for name, width in widths.items())


def _losses(losses: Mapping[str, float], facts: Mapping[str, float]) -> dict[str, str]:
    """The loss; its parts when there are several, each reconstruction loss with its multiplier; the temperature."""
    parts = {name: value for name, value in losses.items() if name != "loss"}
    cells = {"loss": f"{losses['loss']:.3f}"}
    if len(parts) > 1:
        for name, value in parts.items():
            cells[name] = f"{value:.3f}"
            if f"{name} multiplier" in facts:
                cells[f"{name} λ"] = f"{facts[f'{name} multiplier']:.2f}"
    if "temperature" in facts:
        cells["τ"] = f"{facts['temperature']:.4f}"
    return cells


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
