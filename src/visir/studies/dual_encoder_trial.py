"""One dual encoder, trained and evaluated under several conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.records import Collection, Result
from visir.studies.trial import TRIAL_FILE, TrainingTrial
from visir.training.recipe import Recipe

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


@dataclass(frozen=True)
class DualEncoderTrial(TrainingTrial):
    """A recipe of `visir train`, and under which conditions its checkpoint is evaluated."""

    recipe: Recipe  # of the training
    # From labels to the shortcuts that the evaluated split carries, as `Shortcuts.parse` takes them; None for none.
    evaluations: Mapping[str, str | None] = field(default_factory=lambda: {"test": None})
    split: str = "test"  # which split is evaluated

    def results(self, out: Path) -> dict[str, Result]:
        """The result of every evaluation."""
        from visir.evaluation.results import load

        return {label: load(self.folder(out) / label) for label in self.evaluations}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "recipe": self.recipe.model_dump(mode="json"),
            "evaluations": dict(self.evaluations),
            "split": self.split,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DualEncoderTrial:
        """Back from `to_dict`."""
        return cls(values["name"], Recipe.model_validate(values["recipe"]), values["evaluations"], values["split"])

    def _is_measured(self, folder: Path) -> bool:
        from visir.evaluation.results import is_result

        return (folder / TRIAL_FILE).is_file() and all(is_result(folder / label) for label in self.evaluations)

    def _train(self, checkpoint: Path) -> None:
        from visir.training import train

        train(self.recipe, out=checkpoint, resume=True)

    def _measure(self, folder: Path, collection: Collection, encoder: Encoder) -> None:
        from visir.evaluation.evaluate import evaluate
        from visir.evaluation.results import is_result, save
        from visir.shortcuts import inject

        for label, shortcuts in self.evaluations.items():
            if not is_result(folder / label):
                view = collection if shortcuts is None else inject(collection, shortcuts)
                save(evaluate(view, encoder, split=self.split, depth=10, name=self.name), folder / label, replace=True)
