"""A folder of runs as a system: one run file for each perturbation, made by BM25, another toolkit or a service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from visir.errors import RunError, VisirError, raise_faults
from visir.evaluation.gallery_check import check
from visir.evaluation.systems.base import System
from visir.records import PLAIN, TASKS, Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.formats import read_run
from visir.retrieval.pools import ranks_in_pools, within_pools
from visir.retrieval.ranks import ranks_of
from visir.robustness.corruptions import CORRUPTIONS
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.storage import MANIFEST

SUFFIXES = (".trec", ".run", ".txt", ".res", ".parquet", ".json")


class RunFolder(System):
    """A folder of runs, named for their condition: `none.trec`, `nearby_char.trec`, … in any known run format."""

    # Files in the folder itself are text-to-image runs. Image-to-text runs (queries: corrupted pictures) are in its
    # subfolder `i2t`, with a `none` of their own. `t2i` may be a subfolder as well.
    # A run may omit captions that the perturbation did not change: their answers are in `none`. A changed caption
    # without answer counts as failed, and a note counts these captions.

    def __init__(self, folder: str | Path, name: str | None = None) -> None:
        self.folder = Path(folder)
        super().__init__(name or self.folder.resolve().name)
        self.files: dict[str, dict[str, Path]] = {task: _files(self.folder, task) for task in TASKS}
        faults = []
        for task, files in self.files.items():
            strange = [file for file in sorted(files) if file != PLAIN and not _is_known(file, task)]
            faults += [f"{files[condition].name}: {condition!r} is no {_KINDS[task]}" for condition in strange]
            if files and PLAIN not in files:
                faults.append(f"the unperturbed run of {task} is missing: {PLAIN}.trec, or in another format")
        if not any(self.files.values()):
            faults.append(f"no run: none.trec and one file for each perturbation ({', '.join(SUFFIXES)})")
        raise_faults(
            RunError, str(self.folder), faults, hint=f"known: {', '.join(PERTURBATIONS)}; i2t: {', '.join(CORRUPTIONS)}"
        )

    def answers(self, task: str) -> bool:
        """Whether there are runs of this task."""
        return bool(self.files.get(task))

    def conditions(self, task: str) -> list[str]:
        """The perturbations with a run."""
        return [name for name in self.files[task] if name != PLAIN]

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Read the run of each task's condition; a run over another gallery is refused."""
        return [self._read(task, depth, ties) for task in tasks]

    def _read(self, task: Task, depth: int, ties: Ties) -> SearchResult:
        files = self.files[task.name]
        if task.condition not in files:
            raise RunError(
                f"{self.folder}: there is no {task.name} run {task.condition!r}.",
                hint=f"there are {', '.join(files) or 'none'}",
            )
        path = files[task.condition]
        run = read_run(path, task=task.name, gallery=task.gallery, name=self.name)
        return answered(run, task, depth, ties, self.notes, str(path))


def is_run_folder(path: str | Path) -> bool:
    """Whether a path is a folder of runs: it has the unperturbed one, `none.trec` or in another format."""
    places = [Path(path), *(Path(path) / task for task in TASKS)]
    files = [file for place in places if place.is_dir() for file in place.glob(f"{PLAIN}.*")]
    return any(suffix in SUFFIXES for file in files for suffix in file.suffixes)


def answered(run: Run, task: Task, depth: int, ties: Ties, notes: list[str], place: str) -> SearchResult:
    """Check a run from outside and compute its ranks for a task."""
    # The ranks are those of the task's queries, and of other queries that the run answers and the task judges.
    note = check(run, task.gallery)
    if run.depth < depth and not run.gallery.ends_by(run.depth):
        raise RunError(f"{place}: answers are {run.depth} deep; rsum looks at the first {depth}.", hint="search deeper")
    judged = task.measured_queries()
    notes += [note] if note and note not in notes else []
    queries = pa.concat_arrays([judged, run.queries]).unique()
    qrels = task.judgements().select(queries)
    if task.pools is None:
        return SearchResult(run, ranks_of(run, qrels, ties))
    return SearchResult(within_pools(run, task.pools), ranks_in_pools(run, task.pools, qrels, ties))


_KINDS = {"t2i": "perturbation of captions", "i2t": "corruption of pictures"}


def _is_known(name: str, task: str) -> bool:
    """Whether a run's name is a perturbation, or several joined by "+"."""
    if task == "i2t":
        return name in CORRUPTIONS
    try:
        return all(find(step) for step in name.split("+"))
    except VisirError:
        return False


def _files(folder: Path, task: str) -> dict[str, Path]:
    places = [folder / task, *([folder] if task == "t2i" else [])]
    files: dict[str, Path] = {}
    for place in places:
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            name, _, rest = path.name.partition(".")
            if f".{rest.partition('.')[0]}" in SUFFIXES and path.is_file() and path.name != MANIFEST:
                if name in files:
                    raise RunError(f"{files[name]} and {path} are both the run {name!r}.", hint="keep one of them")
                files[name] = path
    return files
