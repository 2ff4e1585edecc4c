"""The training curve: what each epoch came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
