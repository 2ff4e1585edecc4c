"""The training curve: what each epoch came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from visir.display import Plotted, Tabular


@dataclass(frozen=True)
class Epoch:
    """One point of the training curve."""

    epoch: int  # from 1
    losses: dict[str, float]  # means over its pairs of "loss", what is made small, and its parts
    facts: dict[str, float]  # what the learner stands at after it (temperature, multipliers)
    # The figures of validation; of dual encoders, hits in percent and "rsum" (`visir.training.validation.validate`).
    validation: dict[str, float]
    seconds: float  # how long it took, validation included
    rate: float  # pairs trained per second


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


@dataclass(frozen=True, repr=False)
class TrainingCurve(Tabular, Plotted, Sequence[Epoch], view="visir.reports.views.training"):
    """All epochs of a training, in order; as many as were run."""

    name: str  # of the recipe
    epochs: tuple[Epoch, ...]  # the epochs
    chosen: int  # the epoch (from 1) whose weights were kept

    def __len__(self) -> int:
        return len(self.epochs)

    @overload
    def __getitem__(self, index: int) -> Epoch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Epoch]: ...
    def __getitem__(self, index: int | slice) -> Epoch | Sequence[Epoch]:
        return self.epochs[index]

    def rows(self) -> list[dict[str, float]]:
        """One row for each epoch: "epoch", losses, facts, the figures of validation, "seconds", "rate"."""
        return [
            {
                "epoch": epoch.epoch,
                **epoch.losses,
                **epoch.facts,
                **epoch.validation,
                "seconds": epoch.seconds,
                "rate": epoch.rate,
            }
            for epoch in self.epochs
        ]

    def __repr__(self) -> str:
        losses = [epoch.losses["loss"] for epoch in self.epochs]
        course = f", loss {losses[0]:.3f} → {losses[-1]:.3f}" if losses else ""
        return f"TrainingCurve({self.name}: {len(self)} epochs{course}, epoch {self.chosen} kept)"
