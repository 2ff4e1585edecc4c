"""The part of a recipe that every training reads, whatever it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from visir.training.recipe import Averaging, Optimiser, Schedule


class EpochChoice(Protocol):
    """Which epoch's weights are kept."""

    @property
    def keep(self) -> str:
        """The figure of validation whose best epoch is kept, or "last"."""
        ...

    @property
    def figure(self) -> str:
        """The figure of validation by which epochs are compared, whichever is kept."""
        ...

    @property
    def patience(self) -> int | None:
        """After how many epochs without a better figure training stops."""
        ...


class Regime(Protocol):
    """A recipe as far as the loop is concerned: how towers are trained, not what they are. See `recipe.Recipe`."""

    @property
    def name(self) -> str:
        """What the training is called while it runs."""
        ...

    @property
    def seed(self) -> int:
        """Of shuffling, augmentation and dropout."""
        ...

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    @property
    def precision(self) -> Literal["float32", "bfloat16", "float16"]:
        """Of the forward pass."""
        ...

    @property
    def optimiser(self) -> Optimiser:
        """How the weights move."""
        ...

    @property
    def schedule(self) -> Schedule:
        """The learning rate over time."""
        ...

    @property
    def averaging(self) -> Averaging:
        """Of the weights within an epoch."""
        ...

    @property
    def selection(self) -> EpochChoice:
        """Which epoch is kept."""
        ...

    @property
    def rates(self) -> Mapping[str, float]:
        """Peak learning rates by side."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """All settings as plain values (pydantic's)."""
        ...
