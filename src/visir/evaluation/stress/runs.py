"""Runs that somebody made under stress: BM25, another toolkit, a service: one run file for each perturbation."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError, VisirError, raise_faults
from visir.evaluation.gallery_check import check
from visir.evaluation.stress.subject import DEPTH, PLAIN, Condition, Setup, Subject
from visir.records import TASKS, Run
from visir.robustness.corruptions import CORRUPTIONS
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.search.exact import Searched
from visir.search.formats import read_run
from visir.search.ranks import ranks_of
from visir.storage import MANIFEST

SUFFIXES = (".trec", ".run", ".txt", ".res", ".parquet", ".json")


class RunsSubject(Subject):
    """A folder of runs named for what was asked: `none.trec`, `nearby_char.trec`, … in any known run format.

    Files in the folder itself are text-to-image runs; image-to-text ones (queries: corrupted pictures) lie in its
    subfolder `i2t`, with a `none` of their own. `t2i` may be a subfolder as well.

    A run may leave out captions that the perturbation did not change: they have their answer in `none`. A changed
    caption that is not answered counts as failed, and a note says how many.

    Raises `RunError` listing every file whose name is no perturbation, and when `none` is missing.
    """

    def __init__(self, folder: str | Path, name: str | None = None) -> None:
        self.folder = Path(folder)
        super().__init__(name or self.folder.resolve().name)
        self.files: dict[str, dict[str, Path]] = {one: _files(self.folder, one) for one in TASKS}
        faults = []
        for task, files in self.files.items():
            strange = [one for one in sorted(files) if one != PLAIN and not _is_known(one, task)]
            faults += [f"{files[one].name}: {one!r} is no {_KINDS[task]}" for one in strange]
            if files and PLAIN not in files:
                faults.append(f"the unperturbed run of {task} is missing: {PLAIN}.trec, or in another format")
        if not any(self.files.values()):
            faults.append(f"no run: none.trec and one file for each perturbation ({', '.join(SUFFIXES)})")
        raise_faults(
            RunError, str(self.folder), faults, hint=f"known: {', '.join(PERTURBATIONS)}; i2t: {', '.join(CORRUPTIONS)}"
        )

    def offered(self, task: str) -> list[str]:
        """The perturbations there is a run for."""
        return [one for one in self.files[task] if one != PLAIN]

    def answer(self, setup: Setup, task: str, condition: Condition) -> Searched:
        """Read the condition's run, refusing one over another gallery."""
        files = self.files[task]
        if condition.name not in files:
            raise RunError(
                f"{self.folder}: there is no {task} run {condition.name!r}.",
                hint=f"there are {', '.join(files) or 'none'}",
            )
        path = files[condition.name]
        run = read_run(path, task=task, gallery=setup.galleries[task], name=self.name)
        return answered(run, setup, condition, self.notes, str(path))


def answered(run: Run, setup: Setup, condition: Condition, notes: list[str], where: str) -> Searched:
    """A run from outside as an answer: its gallery checked, its depth, what it left out counted, its ranks taken."""
    task = run.task
    note = check(run, setup.galleries[task])
    if run.depth < DEPTH and run.depth < run.gallery.size:
        raise RunError(f"{where}: answers are {run.depth} deep; rsum looks at the first {DEPTH}.", hint="search deeper")
    missing = len(condition.queries) - int(pc.sum(pc.is_in(condition.queries, run.queries)).as_py() or 0)
    notes += [note] if note and note not in notes else []
    if missing:
        notes.append(
            f"{condition.name}: {missing:,} of {len(condition.queries):,} queries are not answered; they failed"
        )
    asked = pa.concat_arrays([condition.queries, run.queries]).unique()
    return Searched(run, ranks_of(run, setup.qrels[task].select(asked), setup.ties))


_KINDS = {"t2i": "perturbation of captions", "i2t": "corruption of pictures"}


def _is_known(name: str, task: str) -> bool:
    """Whether a run's name is a perturbation, or several joined by "+"."""
    if task == "i2t":
        return name in CORRUPTIONS
    try:
        return all(find(one) for one in name.split("+"))
    except VisirError:
        return False


def _files(folder: Path, task: str) -> dict[str, Path]:
    places = [folder / task, *([folder] if task == "t2i" else [])]
    found: dict[str, Path] = {}
    for place in places:
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            name, _, rest = path.name.partition(".")
            if f".{rest.partition('.')[0]}" in SUFFIXES and path.is_file() and path.name != MANIFEST:
                if name in found:
                    raise RunError(f"{found[name]} and {path} are both the run {name!r}.", hint="keep one of them")
                found[name] = path
    return found
