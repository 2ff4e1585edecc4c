"""A command as a system: a script, another toolkit, a client of a service."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from visir.errors import ConfigurationError, RunError, VisirError
from visir.evaluation.systems.base import System
from visir.evaluation.systems.run_folder import answered
from visir.records import Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.formats import read_run
from visir.storage import FolderKind, changing, read_written_json

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
