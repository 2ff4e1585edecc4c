"""Systems that answer perturbed queries without a model: folders of runs, and commands."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import ConfigurationError, RunError, VisirError, nearest, raise_faults
from visir.evaluation.systems.base import System
from visir.evaluation.systems.runs import check
from visir.records import PLAIN, TASKS, Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.formats import read_run
from visir.retrieval.pools import ranks_in_pools, within_pools
from visir.retrieval.ranks import ranks_of
from visir.robustness.corruptions import CORRUPTIONS
from visir.robustness.perturbations import PERTURBATIONS, find
from visir.storage import MANIFEST, FolderKind, changing, read_written_json


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


# A folder of runs as a system: one run file for each perturbation, made by BM25, another toolkit or a service.

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
            strange = [file for file in sorted(files) if file != PLAIN and unknown_condition(file, task)]
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


_KINDS = {"t2i": "perturbation of captions", "i2t": "corruption of pictures"}


def unknown_condition(name: str, task: str) -> str:
    """Why there is no such perturbation; "" if there is. Those of captions may be joined: "char_swap+synonym_noun"."""
    try:
        for step in name.split("+") if task == "t2i" else []:
            find(step)
    except VisirError as fault:
        return f"{fault.message} ({fault.hint})"
    if task == "i2t" and name not in CORRUPTIONS:
        return f"unknown {CORRUPTIONS.kind} {name!r} ({nearest(name, CORRUPTIONS)})"
    return ""


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


# A command as a system: a script, another toolkit, a client of a service.

CALLS = FolderKind("stress-calls", "a folder of queries and runs")

_TAIL = 2_000


class CommandSystem(System):
    """A command line with `{queries}` and `{run}` in it, called once for each perturbation (text-to-image only)."""

    # `{queries}` is a file of lines "id, tab, text" in UTF-8; white space inside a text is one space. The unperturbed
    # call has all captions, the other calls have the changed ones. `{run}` is the file for the answers: a TREC run
    # unless `suffix` says otherwise, at least ten deep, over all images of the gallery.

    def __init__(self, command: str, folder: str | Path, name: str | None = None, suffix: str = ".trec") -> None:
        self.words, self.folder, self.suffix = shlex.split(command), Path(folder), suffix
        missing = [place for place in ("{queries}", "{run}") if place not in command]
        if missing or not self.words:
            raise ConfigurationError(
                f"--command {command!r} does not say where {' and '.join(missing)} stands.",
                hint="for example: --command 'mysearch {queries} {run}'",
                code="command-not-say-where",
            )
        super().__init__(name or Path(self.words[0]).name)

    def answers(self, task: str) -> bool:
        """Whether the queries of the task are texts: text-to-image."""
        return task == "t2i"

    def conditions(self, task: str) -> list[str] | None:
        """Any perturbation of captions (None); no corruption of pictures."""
        return None if task == "t2i" else []

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Write the queries of each task, call the command, read its run."""
        return [self._search(task, depth, ties) for task in tasks]

    def _search(self, task: Task, depth: int, ties: Ties) -> SearchResult:
        rows = np.flatnonzero(pc.is_in(task.queries.ids, task.measured_queries()).to_numpy(zero_copy_only=False))
        items = task.queries.take(rows)
        assert items.texts is not None, "queries of this task are texts"
        lines = "".join(
            f"{query}\t{' '.join(text.split())}\n"
            for query, text in zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True)
        ).encode()
        queries, run = self.folder / f"{task.condition}.tsv", self.folder / f"{task.condition}{self.suffix}"
        done = self.folder / f"{task.condition}.done"
        mark = {
            "command": self.words,
            "queries": hashlib.blake2b(lines, digest_size=16).hexdigest(),
            "documents": task.documents.fingerprint,
            "gallery": task.gallery.fingerprint,
        }
        if not (run.is_file() and _same(done, mark)):
            busy = f"{self.folder}: another process is writing there; waiting for it"
            with changing(self.folder, CALLS, busy=busy) as change:
                change.drop(run.name, done.name)  # the answers of an earlier command
                change.commit()
                change.write(queries.name, lines)
                places = {"{queries}": str(queries), "{run}": str(change.file(run.name))}
                self._call([_filled(word, places) for word in self.words], run)
                change.write_json(done.name, mark)
        answer = read_run(run, task=task.name, gallery=task.gallery, name=self.name)
        return answered(answer, task, depth, ties, self.notes, str(run))

    def _call(self, words: list[str], run: Path) -> None:
        started = time.perf_counter()
        try:
            finished = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        except OSError as fault:
            raise RunError(f"{words[0]}: cannot be run: {fault.strerror}.", hint="is it installed, on PATH?") from fault
        self.seconds["command"] = self.seconds.get("command", 0.0) + time.perf_counter() - started
        if finished.returncode != 0:
            tail = (finished.stderr or finished.stdout)[-_TAIL:].strip()
            raise RunError(
                f"{shlex.join(words)}: exit status {finished.returncode}.\n{tail}",
                hint="mend the command",
                code="exit-status",
            )
        if not run.is_file():
            raise RunError(
                f"{shlex.join(words)}: left no run at {run}.", hint="write the answers to {run}", code="left-no-run"
            )


def _filled(word: str, places: Mapping[str, str]) -> str:
    """The word with its placeholders filled; other braces (of awk, of JSON) stay as they are."""
    for place, path in places.items():
        word = word.replace(place, path)
    return word


def _same(done: Path, mark: Mapping[str, object]) -> bool:
    try:
        return done.is_file() and read_written_json(done) == mark
    except VisirError:
        return False
