"""A training and what is measured of it, in a folder of its own that can be finished later."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from visir.errors import VisirError
from visir.files import json_bytes
from visir.plugins import same_python
from visir.progress import Progress
from visir.records import Collection, Result
from visir.storage import MANIFEST, FolderKind, Manifest, put, read_written_json
from visir.threads import usable_cores
from visir.training.recipe import Recipe

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.sparse.recipe import SparseRecipe


TRIAL = FolderKind("trial", "a trial")

TRIAL_FILE = "trial.json"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class TrainingTrial(ABC):
    """A recipe whose checkpoint is measured. Subclasses say how to train it and what to measure."""

    RECIPE: ClassVar[type[Recipe | SparseRecipe]] = Recipe

    name: str  # of its folder within the study; names with "/" nest
    recipe: Recipe | SparseRecipe  # of the training

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "recipe": self.recipe.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Back from `to_dict`."""
        return cls(**{**values, "recipe": cls.RECIPE.model_validate(values["recipe"])})

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
    with TRIAL.reading(folder, TRIAL_FILE):
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


# One dual encoder, trained and evaluated under several conditions.


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


WITHOUT, WITH = "without", "with"
"""Labels of evaluations: of the split as it is, and of the split with the shortcuts of the training."""


# Many trials, several side by side; finished ones stay, interrupted ones go on.

LOG_FILE = "log.txt"


def run_trials(trials: Sequence[TrainingTrial], out: Path, *, jobs: int | None = None) -> None:
    """Carry out every unfinished trial in a process of its own."""
    # Each has one thread, so that its figures do not depend on how many run beside it, and small models lose nothing by
    # it. What each prints is in its `log.txt`. Trials that share the vectors of a frozen encoder wait for each other
    # while one of them encodes.
    unfinished = [trial for trial in trials if not trial.is_finished(out)]
    if not unfinished:
        return
    faults: list[str] = []

    def start(trial: TrainingTrial) -> None:
        folder = trial.folder(out)
        put(folder, TRIAL, {TRIAL_FILE: json_bytes(trial.to_dict())}, keep=[LOG_FILE])
        kind = f"{type(trial).__module__}:{type(trial).__qualname__}"
        python, environment = same_python()
        with (folder / LOG_FILE).open("ab") as stream:
            process = subprocess.run(
                [*python, "-m", "visir.studies.trial", kind, str(out), str(folder)],
                env={**environment, "OMP_NUM_THREADS": "1"},
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if process.returncode:
            last = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            faults.append(f"{trial.name}: {' '.join(last)} (see {folder / LOG_FILE})")

    with Progress("trials", len(unfinished), "trials") as advance, ThreadPoolExecutor(jobs or usable_cores()) as pool:
        for _ in pool.map(start, unfinished):
            advance()
    if faults:
        raise VisirError(
            "not all trials ended well:\n  " + "\n  ".join(faults),
            hint="the same command goes on",
            code="trials-failed",
        )


def main() -> None:
    """`python -m visir.studies.trial CLASS OUT FOLDER`: carry out the trial that FOLDER describes."""
    name, out, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    module, _, kind = name.partition(":")
    trial: TrainingTrial = getattr(import_module(module), kind).from_dict(read_written_json(folder / TRIAL_FILE))
    trial.carry_out(out)


if __name__ == "__main__":
    main()
