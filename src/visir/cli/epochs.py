"""What a training prints: one line per epoch in columns, and how to go on when it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from visir.cli import output

if TYPE_CHECKING:
    from visir.training.curve import Epoch
    from visir.training.regime import Regime

R = TypeVar("R")

Columns = Callable[["Epoch"], Mapping[str, str]]
"""The columns of an epoch between its number and the figure by which epochs are compared."""


def print_epochs(
    train: Callable[[Callable[[Epoch], None]], R],
    out: Path,
    lines: EpochLines,
    board: AbstractContextManager[Callable[[Epoch], None] | None] | None = None,
) -> R:
    """Train, and print a line per epoch.

    Args:
        train: The training; it calls what it is given after each epoch.
        out: The training's folder, for the hint of how to go on.
        lines: How an epoch becomes a line.
        board: Where each epoch is written besides.

    Returns:
        What `train` returns.
    """
    from visir.training.folder import STATE_FILE

    with board or nullcontext() as log:

        def report(epoch: Epoch) -> None:
            for line in lines.of(epoch):
                output.line(line)
            if log is not None:
                log(epoch)

        try:
            return train(report)
        except KeyboardInterrupt:
            if (out / STATE_FILE).is_file():
                typer.echo(f"\nstopped; the same command with --resume goes on from {out / STATE_FILE}", err=True)
            raise


def print_steps(recipe: Regime, examples: int) -> None:
    """Print how many steps a training over so many examples has."""
    from visir.training.batches import steps_per_epoch

    settings = recipe.optimiser
    steps = steps_per_epoch(examples, settings.batch, settings.accumulate)
    output.line(f"steps: {steps:,} an epoch, {steps * settings.epochs:,} in {settings.epochs} epochs")


class EpochLines:
    """A line per epoch, before the first one the heads of the columns; within 100 columns for towers.

    Args:
        epochs: How many there are.
        columns: The columns of one epoch.
        figure: The figure of validation by which epochs are compared, and the head of its column. A star marks the best
            so far.
        unit: What is counted per second.
    """

    def __init__(
        self,
        epochs: int,
        columns: Columns | None = None,
        figure: tuple[str, str] = ("rsum", "val rsum"),
        unit: str = "captions",
    ) -> None:
        self._epochs, self._columns, self._figure, self._unit = epochs, columns or loss_columns, figure, unit
        self._best = float("-inf")
        self._has_heads = False

    def of(self, epoch: Epoch) -> Iterator[str]:
        """The line of an epoch, before the first one the heads of the columns."""
        name, head = self._figure
        value = epoch.validation[name]
        cells = {
            "epoch": f"{epoch.epoch}/{self._epochs}",
            **self._columns(epoch),
            head: f"{value:.1f}{'*' if value > self._best else ' '}",
            f"{self._unit}/s": f"{epoch.rate:,.0f}",
            "left": _time((self._epochs - epoch.epoch) * epoch.seconds),
        }
        widths = {name: max(len(name), 7) for name in cells}
        if not self._has_heads:
            yield " ".join(f"{name:>{width}}" for name, width in widths.items())
        self._has_heads = True
        self._best = max(self._best, value)
        yield " ".join(f"{cells[name]:>{width}}" for name, width in widths.items())


def loss_columns(epoch: Epoch) -> dict[str, str]:
    """The loss; its parts when there are several, each reconstruction loss with its multiplier; the temperature."""
    losses, facts = epoch.losses, epoch.facts
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
