"""A training and what is measured of it, in a folder of its own that can be finished later."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from visir.errors import VisirError
from visir.files import json_bytes
from visir.records import Collection
from visir.storage import MANIFEST, FolderKind, Manifest, put, read_written_json

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.training.recipe import Data

TRIAL = FolderKind("trial", "a trial")

TRIAL_FILE = "trial.json"
CHECKPOINT = "checkpoint"


class TrialRecipe(Protocol):
    """What a trial needs to know of the recipe of its training."""

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    @property
    def data(self) -> Data:
        """What is learnt from."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """All settings as plain values."""
        ...


@dataclass(frozen=True)
class TrainingTrial(ABC):
    """A recipe whose checkpoint is measured. Subclasses say how to train it and what to measure."""

    name: str  # of its folder within the study; names with "/" nest
    recipe: TrialRecipe  # of the training

    def folder(self, out: Path) -> Path:
        """Where the trial is stored."""
        return out / self.name

    def is_finished(self, out: Path) -> bool:
        """Whether it is trained and everything is measured."""
        self.check_same(out)
        return self._is_measured(self.folder(out))

    def check_same(self, out: Path) -> None:
        """Raise `VisirError` when another trial lies in the folder: two recipes under one name are no table."""
        check_same_trial(self.folder(out), self.to_dict())

    def carry_out(self, out: Path) -> None:
        """Train and measure, as far as that is not done yet; an interrupted training goes on from its last state."""
        from visir.encoders import load
        from visir.encoders.families import CHECKPOINT_FILE
        from visir.training.data import open_whole

        folder = self.folder(out)
        begin_trial(folder, self.to_dict())
        checkpoint, collection = folder / CHECKPOINT, open_whole(self.recipe.data)
        if not (checkpoint / CHECKPOINT_FILE).is_file():
            self._train(checkpoint)
        encoder = load(str(checkpoint), device=None if self.recipe.device == "auto" else "cpu")
        self._measure(folder, collection, encoder)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""

    @classmethod
    @abstractmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Back from `to_dict`."""

    @abstractmethod
    def _is_measured(self, folder: Path) -> bool:
        """Whether everything is measured that the trial asks for."""

    @abstractmethod
    def _train(self, checkpoint: Path) -> None:
        """Write the checkpoint, going on from an interrupted training."""

    @abstractmethod
    def _measure(self, folder: Path, collection: Collection, encoder: Encoder) -> None:
        """Measure what is not measured yet."""


def begin_trial(folder: Path, description: dict[str, Any]) -> None:
    """Make the folder of what is described, unless another trial lies there."""
    check_same_trial(folder, description)
    put(folder, TRIAL, {TRIAL_FILE: json_bytes(description)})


def check_same_trial(folder: Path, description: dict[str, Any]) -> None:
    """Raise `VisirError` when the folder holds another trial than the one described."""
    # Where data can be had is no part of a trial. An evaluation more or less is no other trial; one of the same name
    # under other conditions is.
    if (folder / MANIFEST).is_file():
        Manifest.read(folder, TRIAL)
    elif not (folder / TRIAL_FILE).is_file():  # a kill may have come before either
        return
    stored = read_written_json(folder / TRIAL_FILE)
    labels = set(stored.get("evaluations", ())) & set(description.get("evaluations", ()))
    differing = [
        name
        for name in differing_fields(stored, description)
        if not name.endswith(("data.obtain", "recipe.title", "recipe.group"))
        and (not name.startswith("evaluations.") or name.removeprefix("evaluations.") in labels)
    ]
    if differing:
        raise VisirError(
            f"{folder} holds another trial ({', '.join(differing)} differ).",
            hint="remove the folder, or keep it and choose another one: --out DIR",
            code="holds-another-trial-differ",
        )


def differing_fields(stored: Any, described: Any, path: str = "") -> list[str]:
    """The dotted names of what two dictionaries of plain values differ in."""
    if not isinstance(stored, dict) or not isinstance(described, dict):
        return [] if stored == described else [path]
    return [
        field
        for name in sorted(set(stored) | set(described))
        for field in differing_fields(stored.get(name), described.get(name), f"{path}.{name}" if path else name)
    ]


def main() -> None:
    """`python -m visir.studies.trial CLASS OUT FOLDER`: carry out the trial that FOLDER describes."""
    name, out, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    module, _, kind = name.partition(":")
    trial: TrainingTrial = getattr(import_module(module), kind).from_dict(read_written_json(folder / TRIAL_FILE))
    trial.carry_out(out)


if __name__ == "__main__":
    main()
