"""Run the cells of a study: finished cells stay, a failed cell is marked, and the others go on."""

from __future__ import annotations

import io
import platform
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.arrays import load_array
from visir.errors import CollectionError, VisirError
from visir.evaluation.published import Published
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.storage import Cells, FolderKind, put
from visir.threads import usable_cores
from visir_papers.experiment import Experiment, ExperimentContext, FolderLocks, InsufficientDataError, Measurement
from visir_papers.study import Study, missing

# Cells on disk: a JSON file each, and one of draws, written together when the cell is finished.
#
# So a kill loses only unfinished cells.

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
        self.path, self.cells = path, Cells(path / "cells", CELLS)

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
        self.cells.put(contents)

    def load(self, cell: TableCell) -> TableCell:
        """The saved cell with the same settings; `cell` itself where there is none."""
        saved = self.cells.load(f"{cell.file}.json")
        if saved is None:
            return cell
        with CELLS.reading(self.cells.path, f"{cell.file}.json"):
            if _comparable(saved["settings"]) != _comparable(cell.settings):
                return cell
            measured = saved.pop("measured")
            labels = measured["draws"]
            values: Any = load_array(self.cells.path / f"{cell.file}.npy").astype(np.float64) if labels else []
            changed = {"notes": tuple(measured["notes"]), "draws": dict(zip(labels, values, strict=True))}
            return TableCell(**saved, measured=Measurement(**{**measured, **changed}))


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without what changes no result: where to get data, and options that are not set (newer ones appear)."""
    return {key: value for key, value in settings.items() if key != "needs" and value is not None}


STUDIES = FolderKind("studies", "a folder of studies")
SHARED = "shared"
"""The folder of what several studies use: trainings, sessions of a log."""


def saved_cells(study: Study, name: str, scale: str, out: Path, reading: str | None = None) -> list[TableCell]:
    """All cells of a scale in the order of the study's file; cells that are not on disk are "not run"."""
    folder = StudyFolder(out / name / scale)
    cells = []
    for experiment, new_cell in _cells(study, scale, reading):
        cell = folder.load(new_cell)
        # A cell that was tried has its own reason.
        lacks = missing(experiment) if cell.state == "not run" and not cell.reason else []
        cells.append(replace(cell, reason="; ".join(lacks)) if lacks else cell)
    return cells


def lacking(study: Study, scale: str, reading: str | None = None) -> dict[str, list[str]]:
    """The data that a scale lacks: requirement in words → the rows that need it, in the order of the study's file."""
    rows: dict[str, list[str]] = {}
    for experiment in study.experiments(scale, reading):
        for requirement in missing(experiment):
            rows.setdefault(requirement, []).append(experiment.row)
    return rows


def run_study(
    study: Study, name: str, scale: str, out: Path, *, jobs: int | None = None, reading: str | None = None
) -> list[TableCell]:
    """Run every cell that is not done, or those of one reading."""
    # A cell that lacks data, or whose data does not hold what it needs, is "not run", with the reason. A cell that
    # fails is saved with the reason and tried again next time; the others go on.
    pairs = _cells(study, scale, reading)
    lacks = lacking(study, scale, reading)
    if lacks and all(missing(experiment) for experiment, _ in pairs):
        raise CollectionError(
            f"{study.paper}, scale {scale}: nothing of it can be run here. It lacks:\n"
            + "\n".join(f"  - {requirement}" for requirement in lacks),
            hint=f"VISIR_DATA says where data lies; without it: visir papers run {name} --scale smoke",
        )
    put(out, STUDIES, {})
    folder, locks = StudyFolder(out / name / scale), FolderLocks()
    table, data = study.table(), study.scale(scale).data
    decimals = table.decimals if isinstance(table, Published) else 2
    waiting = [pair for pair in pairs if not missing(pair[0]) and folder.load(pair[1]).state != "done"]
    with Progress(name, len(waiting), "cells") as advance, ThreadPoolExecutor(jobs or usable_cores()) as pool:

        def carry_out(pair: tuple[Experiment, TableCell]) -> None:
            experiment, cell = pair
            row, work = study.row(cell.system, cell.collection), folder.work_folder(cell)
            judged = (experiment.data or data) == "same"
            context = ExperimentContext(work, out / SHARED, cell.seed, row, decimals, judged, locks)
            folder.save(_finished(experiment, cell, context))

        for _ in pool.map(carry_out, waiting):
            advance()
    return saved_cells(study, name, scale, out, reading)


def _finished(experiment: Experiment, cell: TableCell, context: ExperimentContext) -> TableCell:
    from visir.evaluation.scoring import versions

    began = time.perf_counter()
    state: CellState = "done"
    measured, reason = Measurement({}, {}), ""
    try:
        measured = experiment.measure(context)
    except InsufficientDataError as fault:
        state, reason = "not run", fault.message
    except Exception as fault:  # a fault in one cell must not stop the others
        state = "failed"
        reason = str(fault) if isinstance(fault, VisirError) else f"{type(fault).__name__}: {fault}"
    return replace(
        cell,
        state=state,
        reason=reason,
        measured=measured,
        versions=versions(),
        machine=f"{platform.machine()}, {usable_cores()} cores, {platform.system()}",
        seconds=round(time.perf_counter() - began, 1),
    )


def _cells(study: Study, scale: str, reading: str | None) -> Sequence[tuple[Experiment, TableCell]]:
    """Every experiment with every seed; seeds outermost, so that a whole table of one seed is there early."""
    experiments = study.experiments(scale, reading)
    seeds = study.scale(scale).seeds
    return [(experiment, TableCell.of(experiment, seed)) for seed in seeds for experiment in experiments]
