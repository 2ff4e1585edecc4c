"""What a training leaves: a folder that is a model, and how it came about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.display import Plotted, Tabular
from visir.encoders.checkpoints import ENCODER, read_description
from visir.errors import EncoderError
from visir.training.step_log import Epoch, TrainingCurve

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


@dataclass(frozen=True, repr=False)
class TrainedModel(Tabular, Plotted, os.PathLike[str]):
    """The folder of a finished training. It stands wherever the name of a model does: `visir.evaluate(photos, run)`.

    Attributes:
        path: Of the folder.

    Example:
        >>> import visir
        >>> changes = {"epochs": 1, "batch": 16}
        >>> run = visir.train("scenes-heads", data="scenes:50?size=64", out="heads", **changes)
        >>> run.name, run.chosen_epoch, visir.load(run).dimension
        ('scenes-heads', 1, 128)
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a person writes the folder as text

    @property
    def name(self) -> str:
        """Of the recipe."""
        return str(self.recipe["name"])

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Everything that the result depends on, defaults and all; `recipe.toml` in the folder says the same."""
        recipe: Mapping[str, Any] = self.facts["recipe"]
        return recipe

    @cached_property
    def curve(self) -> TrainingCurve:
        """Every epoch: losses, figures of validation, time."""
        with ENCODER.reading(self.path):
            epochs = tuple(Epoch(**epoch) for epoch in self.facts["curve"])
            return TrainingCurve(self.name, epochs, self.chosen_epoch)

    @property
    def chosen_epoch(self) -> int:
        """The epoch (from 1) whose weights the model has."""
        return int(self.facts["chosen_epoch"])

    @property
    def validation(self) -> dict[str, float]:
        """The figures of the validation split at the chosen epoch. They chose it: test figures are another matter."""
        return dict(self.facts["validation"])

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """How it came about: recipe, curve, data, seconds, peak memory, versions."""
        description = read_description(self.path)
        facts = description.get("facts")
        if not isinstance(facts, Mapping) or "curve" not in facts:
            raise EncoderError(f"{self.path}: a model, but of no training.", hint=f'visir.load("{self.path}")')
        return facts

    def load(self, *, device: str | None = None) -> Encoder:
        """The trained encoder: `visir.load` of the folder.

        Args:
            device: Where it computes; the fastest there is when it is left out.
        """
        from visir.encoders import load

        return load(self.path, device=device)

    def merge(self, out: str | os.PathLike[str]) -> TrainedModel:
        """Write a model of its own, with the adapters of this one added to the weights of its base.

        It gives the same vectors, and needs neither the base nor `peft`.

        Args:
            out: A new folder.

        Raises:
            EncoderError: This model has no adapters.
        """
        from visir.encoders.models.adapter_files import merge_checkpoint

        return TrainedModel(merge_checkpoint(self.path, os.fspath(out)))

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        """The path, so that it is a name of a model too."""
        return str(self.path)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.1f}" for name, value in self.validation.items())
        return (
            f"TrainedModel({str(self.path)!r}): {self.name}, epoch {self.chosen_epoch} of {len(self.curve)}\n"
            f"  validation: {figures}"
        )
