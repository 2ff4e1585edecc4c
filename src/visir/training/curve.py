"""The training curve: what each epoch came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """One point of the training curve.

    - `epoch`: from 1; `losses`: means over its captions of "loss", what is made small, and its parts
    - `facts`: what the objective stands at after it (temperature, multipliers)
    - `validation`: hits in percent and "rsum", as `visir.training.validation.validate` counts them
    - `seconds`: what it took, validation included; `rate`: captions trained per second
    """

    epoch: int
    losses: dict[str, float]
    facts: dict[str, float]
    validation: dict[str, float]
    seconds: float
    rate: float


@dataclass
class Running:
    """The epoch that is under way: its steps and captions so far, the sums of its losses over captions, its seconds."""

    step: int = 0
    captions: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, losses: Mapping[str, float], captions: int) -> None:
        """Count a step, whose losses are means over its captions."""
        self.step += 1
        self.captions += captions
        for name, value in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * captions

    def means(self) -> dict[str, float]:
        """The losses over all captions so far."""
        return {name: value / self.captions for name, value in self.sums.items()}
