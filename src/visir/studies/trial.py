"""One training and its evaluations, in a folder of its own that can be finished later."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from visir.errors import VisirError
from visir.files import json_bytes, read_json
from visir.records import Result
from visir.storage import FolderKind, put
from visir.training.recipe import Recipe

TRIAL = FolderKind("trial", "a trial")

TRIAL_FILE = "trial.json"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Trial:
    """A recipe, and under which conditions its checkpoint is evaluated.

    - `name`: of its folder within the study; names with "/" nest
    - `evaluations`: label → the shortcuts that the evaluated split carries, as `Shortcuts.parse` takes them; None for
      none
    - `split`: which split is evaluated
    """

    module: ClassVar[str] = "visir.studies.trial"
    """What carries it out, in a process of its own."""

    name: str
    recipe: Recipe
    evaluations: Mapping[str, str | None] = field(default_factory=lambda: {"test": None})
    split: str = "test"

    def folder(self, out: Path) -> Path:
        """Where it is kept."""
        return out / self.name

    def is_finished(self, out: Path) -> bool:
        """Whether it is trained and evaluated in every way."""
        from visir.evaluation.results import is_result

        folder = self.folder(out)
        self.refuse_another(out)
        return (folder / TRIAL_FILE).is_file() and all(is_result(folder / label) for label in self.evaluations)

    def results(self, out: Path) -> dict[str, Result]:
        """The result of every evaluation."""
        from visir.evaluation.results import load

        return {label: load(self.folder(out) / label) for label in self.evaluations}

    def refuse_another(self, out: Path) -> None:
        """What lies in the folder must be this trial: a table of two recipes under one name is none."""
        path = self.folder(out) / TRIAL_FILE
        if not path.is_file():
            return
        there, asked = read_json(path), self.to_dict()
        # An evaluation more or less is no other trial; one of the same name under other conditions is.
        both = set(there["evaluations"]) & set(asked["evaluations"])
        for one in (there, asked):
            one["recipe"]["data"].pop("obtain", None)  # where data can be had is no part of a trial
            one["evaluations"] = {label: one["evaluations"][label] for label in both}
        if there != asked:
            raise VisirError(
                f"{path.parent} holds another trial ({', '.join(differing_fields(there, asked))} differ).",
                hint="remove the folder, or keep it and choose another one: --out DIR",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "recipe": self.recipe.model_dump(mode="json"),
            "evaluations": dict(self.evaluations),
            "split": self.split,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trial:
        """Back from `to_dict`."""
        return cls(values["name"], Recipe.model_validate(values["recipe"]), values["evaluations"], values["split"])

    def carry_out(self, out: Path) -> None:
        """Train and evaluate, as far as that is not done yet; what was interrupted goes on from its last state."""
        import visir
        from visir.encoders.families import CHECKPOINT_FILE
        from visir.evaluation.results import is_result, save
        from visir.shortcuts import inject
        from visir.training.data import open_whole

        self.refuse_another(out)
        folder = self.folder(out)
        put(folder, TRIAL, {TRIAL_FILE: json_bytes(self.to_dict())})
        checkpoint, collection = folder / CHECKPOINT, open_whole(self.recipe)
        if not (checkpoint / CHECKPOINT_FILE).is_file():
            visir.train(self.recipe, checkpoint, collection=collection, resume=True)
        encoder = visir.load(str(checkpoint), device=None if self.recipe.device == "auto" else "cpu")
        for label, shortcuts in self.evaluations.items():
            if not is_result(folder / label):
                view = collection if shortcuts is None else inject(collection, shortcuts)
                save(visir.evaluate(view, encoder, split=self.split, depth=10, name=self.name), folder / label)


def differing_fields(there: Any, asked: Any, where: str = "") -> list[str]:
    """The dotted names of what two dictionaries of plain values differ in."""
    if not isinstance(there, dict) or not isinstance(asked, dict):
        return [] if there == asked else [where]
    names = sorted(set(there) | set(asked))
    return [
        one
        for name in names
        for one in differing_fields(there.get(name), asked.get(name), f"{where}.{name}" if where else name)
    ]


def main() -> None:
    """`python -m visir.studies.trial OUT FOLDER`: carry out the trial that FOLDER describes."""
    out, folder = Path(sys.argv[1]), Path(sys.argv[2])
    Trial.from_dict(read_json(folder / TRIAL_FILE)).carry_out(out)


if __name__ == "__main__":
    main()
