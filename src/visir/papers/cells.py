"""Cells on disk: a JSON file each, and one of draws, written together when the cell is finished.

So a kill loses only unfinished cells.
"""

from __future__ import annotations

import io
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.arrays import load_array
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.storage import MANIFEST, FolderKind, Manifest, put, read_written_json
from visir.studies.experiment import Experiment, Measurement

CELLS = FolderKind("cells", "a folder of cells", remedy="remove it, or choose another folder: --out DIR", version=2)
CellState = Literal["done", "failed", "not run"]


@dataclass(frozen=True)
class TableCell:
    """One cell of a table with one seed, and its result."""

    system: str  # the system in the published table
    collection: str  # the collection in that table
    seed: int  # the seed
    settings: dict[str, Any]  # the settings of the experiment; a cell with other settings is another cell
    state: CellState = "not run"  # "failed" and "not run" have a `reason`
    reason: str = ""  # why it failed or was not run
    # What was measured; empty unless the cell is done.
    measured: Measurement = field(default_factory=lambda: Measurement({}, {}))
    versions: dict[str, str] = field(default_factory=dict)  # package → version
    machine: str = ""  # processor, cores, operating system
    seconds: float = 0.0  # wall time

    @classmethod
    def of(cls, experiment: Experiment, seed: int) -> TableCell:
        """The cell of an experiment before it was run."""
        return cls(experiment.system, experiment.collection, seed, experiment.model_dump(mode="json"))

    @property
    def file(self) -> str:
        """The name on disk, without suffix: readable, and different from that of every other cell of the scale."""
        words = re.sub(r"[^\w.=+-]+", "-", f"{self.system}-{self.collection}").strip("-")
        key = hash_json({"system": self.system, "collection": self.collection})[:6]
        return f"{words[:60]}-{key}-seed{self.seed}"

    @property
    def row(self) -> str:
        """System and collection in words: "CLIP, Flickr30k"."""
        return f"{self.system}, {self.collection}" if self.collection else self.system


class StudyFolder:
    """The folder of a study at a scale: `cells/NAME.json`, and `work/NAME/` for the files that a cell writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def work_folder(self, cell: TableCell) -> Path:
        """Where the experiment of a cell writes its own files."""
        return self.path / "work" / cell.file

    def save(self, cell: TableCell) -> None:
        """Write a cell in one step."""
        draws = cell.measured.draws
        plain = asdict(replace(cell, measured=replace(cell.measured, draws={})))
        plain["measured"]["draws"] = list(draws)
        contents = {f"{cell.file}.json": json_bytes(plain)}
        if draws:
            stream = io.BytesIO()
            np.save(stream, np.stack(list(draws.values())).astype(np.float32))
            contents[f"{cell.file}.npy"] = stream.getvalue()
        put(self.path / "cells", CELLS, contents)

    def load(self, cell: TableCell) -> TableCell:
        """The saved cell with the same settings; `cell` itself where there is none."""
        cells, name = self.path / "cells", f"{cell.file}.json"
        listed = (cells / MANIFEST).is_file() and name in Manifest.read(cells, CELLS).files
        if not listed or not (cells / name).is_file():
            return cell
        saved = read_written_json(cells / name)
        with CELLS.reading(cells, name):
            if _comparable(saved["settings"]) != _comparable(cell.settings):
                return cell
            measured = saved.pop("measured")
            labels = measured["draws"]
            values: Any = load_array(cells / f"{cell.file}.npy").astype(np.float64) if labels else []
            changed = {"notes": tuple(measured["notes"]), "draws": dict(zip(labels, values, strict=True))}
            return TableCell(**saved, measured=Measurement(**{**measured, **changed}))


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without what changes no result: where to get data, and options that are not set (newer ones appear)."""
    return {key: value for key, value in settings.items() if key != "needs" and value is not None}
