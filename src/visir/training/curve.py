"""The training curve: what each epoch came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from visir.display import Plotted, Tabular


@dataclass(frozen=True)
class Epoch:
    """One point of the training curve.

    Attributes:
        epoch: From 1.
        losses: Means over its pairs of "loss", what is made small, and its parts.
        facts: What the learner stands at after it (temperature, multipliers).
        validation: The figures of validation; of dual encoders, hits in percent and "rsum"
            (`visir.training.validation.validate`).
        seconds: How long it took, validation included.
        rate: Pairs trained per second.
    """

    epoch: int
    losses: dict[str, float]
    facts: dict[str, float]
    validation: dict[str, float]
    seconds: float
    rate: float


@dataclass
class Running:
    """The epoch that is under way.

    Attributes:
        step: Steps so far.
        pairs: Pairs so far.
        sums: Of the losses over pairs.
        seconds: So far.
    """

    step: int = 0
    pairs: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

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
    """All epochs of a training, in order; as many as were run.

    Attributes:
        name: Of the recipe.
        epochs: The epochs.
        chosen: The epoch (from 1) whose weights were kept.
    """

    name: str
    epochs: tuple[Epoch, ...]
    chosen: int

    def __len__(self) -> int:
        return len(self.epochs)

    @overload
    def __getitem__(self, index: int) -> Epoch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Epoch]: ...
    def __getitem__(self, index: int | slice) -> Epoch | Sequence[Epoch]:
        return self.epochs[index]

    def rows(self) -> list[dict[str, float]]:
        """One row for each epoch: "epoch", losses, facts, the figures of validation, "seconds", "rate".

        Example:
            >>> TrainingCurve("toy", (Epoch(1, {"loss": 2.0}, {}, {"rsum": 31.5}, 4.0, 80.0),), 1).rows()
            [{'epoch': 1, 'loss': 2.0, 'rsum': 31.5, 'seconds': 4.0, 'rate': 80.0}]
        """
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
