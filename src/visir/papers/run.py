"""Go through the cells of a study: what is finished is kept, what fails is marked, and the rest goes on."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from visir.errors import CollectionError, VisirError
from visir.evaluation.published import Published
from visir.papers.cells import Cell, Folder
from visir.papers.printed import row_of
from visir.papers.study import Study, missing
from visir.progress import Progress
from visir.storage import FolderKind, put
from visir.studies.experiment import Experiment, Locks, Measurement, NotMeasurable, Work
from visir.threads import usable_cores

STUDIES = FolderKind("studies", "a folder of studies")
SHARED = "shared"
"""The folder of what several studies use: trainings."""


def folder_of(out: Path, name: str, scale: str) -> Folder:
    """Where a study at a scale is kept."""
    return Folder(out / name / scale)


def kept(study: Study, name: str, scale: str, out: Path) -> list[Cell]:
    """All cells of a scale as far as they are kept, in the order of the study's file; the others are "not run"."""
    folder = folder_of(out, name, scale)
    found = []
    for act, cell in _cells(study, scale):
        one = folder.load(cell)
        lacks = missing(act) if one.state == "not run" and not one.reason else []  # what was tried has its reason
        found.append(replace(one, reason="; ".join(lacks)) if lacks else one)
    return found


def lacking(study: Study, scale: str) -> dict[str, list[str]]:
    """What a scale lacks: place in words → the systems that need it, in the order of the study's file."""
    found: dict[str, list[str]] = {}
    for act in study.acts(scale):
        for one in missing(act):
            named = f"{act.system}, {act.collection}" if act.collection else act.system
            found.setdefault(one, []).append(named)
    return found


def run(study: Study, name: str, scale: str, out: Path, *, jobs: int | None = None) -> list[Cell]:
    """Carry out every cell that is not done, `jobs` side by side (trainings are processes of their own).

    A cell that lacks data, or whose data cannot tell what it asks, is left "not run", saying what; one that goes wrong
    is kept as failed with the reason, tried again next time, and stops no other. Raises `CollectionError`, naming
    everything and its place, when no cell at all can be run.
    """
    pairs = _cells(study, scale)
    lacks = lacking(study, scale)
    if lacks and all(missing(act) for act, _ in pairs):
        raise CollectionError(
            f"{study.paper}, scale {scale}: nothing of it can be run here. It lacks:\n"
            + "\n".join(f"  - {one}" for one in lacks),
            hint=f"VISIR_DATA says where data lies; without it: visir study run {name} --scale smoke",
        )
    put(out, STUDIES, {})
    folder, locks = folder_of(out, name, scale), Locks()
    judged = study.scale(scale).data == "same"
    waiting = [(act, cell) for act, cell in pairs if not missing(act) and folder.load(cell).state != "done"]
    with Progress(name, len(waiting), "cells") as advance, ThreadPoolExecutor(jobs or usable_cores()) as pool:

        def carry_out(pair: tuple[Experiment, Cell]) -> None:
            act, cell = pair
            folder.save(_done(study, act, cell, folder.work(cell), out / SHARED, judged, locks))

        for _ in pool.map(carry_out, waiting):
            advance()
    return kept(study, name, scale, out)


def _done(study: Study, act: Experiment, cell: Cell, work: Path, shared: Path, judged: bool, locks: Locks) -> Cell:
    from visir.evaluation.scoring import versions

    table = study.table()
    row, decimals = None, 2
    if isinstance(table, Published):
        row, decimals = table.row(act.system, row_of(act.collection)), table.decimals
    began = time.perf_counter()
    try:
        measured = act.measure(Work(work, shared, cell.seed, row, decimals, judged, locks))
        state, reason = "done", ""
    except NotMeasurable as fault:
        measured, state, reason = Measurement({}, {}), "not run", fault.message
    except Exception as fault:  # whatever goes wrong in one cell, the others must not suffer from it
        measured, state = Measurement({}, {}), "failed"
        reason = str(fault) if isinstance(fault, VisirError) else f"{type(fault).__name__}: {fault}"
    return replace(
        cell,
        state=state,  # type: ignore[arg-type]
        reason=reason,
        measured=measured,
        versions=versions(),
        machine=f"{platform.machine()}, {usable_cores()} cores, {platform.system()}",
        seconds=round(time.perf_counter() - began, 1),
    )


def _cells(study: Study, scale: str) -> Sequence[tuple[Experiment, Cell]]:
    """Seeds outermost, so that a whole table of one seed is there early."""
    acts = study.acts(scale)
    return [(act, Cell.of(act, seed)) for seed in study.scale(scale).seeds for act in acts]
