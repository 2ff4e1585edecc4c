"""Cells on disk: one JSON file each, written when it is finished, so that a kill loses the cells in work only."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from visir.files import json_bytes, read_json
from visir.fingerprint import hash_json
from visir.storage import MANIFEST, FolderKind, Manifest, put
from visir.studies.experiment import Experiment, Measurement

CELLS = FolderKind("cells", "a folder of cells")
State = Literal["done", "failed", "not run"]


@dataclass(frozen=True)
class Cell:
    """One cell with one seed, and what came of it.

    - `asked`: the act's settings: a cell of other settings is another cell
    - `state`: "failed" and "not run" have a `reason`
    - `measured`: see `Measurement`; empty unless done
    - `made`: versions, machine and `seconds` (wall)
    """

    system: str
    collection: str
    seed: int
    asked: dict[str, Any]
    state: State = "not run"
    reason: str = ""
    measured: Measurement = field(default_factory=lambda: Measurement({}, {}))
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, act: Experiment, seed: int) -> Cell:
        """A cell before anything was done."""
        return cls(act.system, act.collection, seed, act.model_dump(mode="json"))

    @property
    def file(self) -> str:
        """Its name on disk: readable, and unlike that of any other cell of the scale."""
        words = re.sub(r"[^\w.=+-]+", "-", f"{self.system}-{self.collection}").strip("-")
        key = hash_json({"system": self.system, "collection": self.collection})[:6]
        return f"{words[:60]}-{key}-seed{self.seed}"


class Folder:
    """The folder of a study at a scale: `cells/NAME.json`, and `work/NAME/` for what a cell leaves behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def work(self, cell: Cell) -> Path:
        """Where a cell works."""
        return self.path / "work" / cell.file

    def save(self, cell: Cell) -> None:
        """Keep a cell, in one step."""
        put(self.path / "cells", CELLS, {f"{cell.file}.json": json_bytes({"visir_cell": 1, **asdict(cell)})})

    def load(self, cell: Cell) -> Cell:
        """The kept cell that was asked for in the same words; otherwise `cell` as it is."""
        cells, name = self.path / "cells", f"{cell.file}.json"
        counts = (cells / MANIFEST).is_file() and name in Manifest.read(cells, CELLS).files
        if not counts or not (cells / name).is_file():
            return cell
        kept = read_json(cells / name)
        if kept.get("visir_cell") != 1 or _asked(kept["asked"]) != _asked(cell.asked):
            return cell
        kept.pop("visir_cell")
        measured = kept.pop("measured")
        return Cell(**kept, measured=Measurement(**{**measured, "notes": tuple(measured["notes"])}))


def _asked(said: dict[str, Any]) -> dict[str, Any]:
    """Without what changes nothing: where data is to be had, and options that are not used (later ones are added)."""
    return {key: value for key, value in said.items() if key != "needs" and value is not None}
