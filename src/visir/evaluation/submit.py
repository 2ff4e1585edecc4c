"""`visir.submit`: answers to queries whose judgements the makers of a benchmark keep, as the files that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.display import Displayed, brief, counted
from visir.errors import ConfigurationError, ProtocolError, nearest
from visir.evaluation.sources import check_open_options, open_tasks
from visir.evaluation.systems.given import opened, system_of
from visir.evaluation.text_weight import composed_system
from visir.files import json_bytes
from visir.records import Qrels, Run, Task
from visir.storage import write_new

# The forms in which benchmarks take answers whose judgements they keep. A new one is a line of `FORMATS`.


@dataclass(frozen=True)
class SubmissionPart:
    """One file of a submission."""

    task: str  # the task whose answers it holds
    depth: int  # how many answers of each query it holds
    ending: str  # what is put before the ending of the file's name; "" for the only file
    # From {query: [documents]}, best first, to what is written as JSON.
    content: Callable[[dict[str, list[str]]], dict[str, Any]]


@dataclass(frozen=True)
class SubmissionFormat:
    """The form in which a benchmark takes answers."""

    name: str  # by which sources name it
    title: str  # what people call the benchmark
    parts: tuple[SubmissionPart, ...]  # its files
    where: str  # where they are handed in
    reference: str  # where the form is described


VERSION = "rc2"


def _circo(answers: dict[str, list[str]]) -> dict[str, Any]:
    """{query number: [50 image numbers]}, both as they stand in its annotations."""
    by_number = {int(query.rpartition("-")[2]): [int(image) for image in images] for query, images in answers.items()}
    return {str(number): by_number[number] for number in sorted(by_number)}


FORMATS: dict[str, SubmissionFormat] = {
    form.name: form
    for form in (
        SubmissionFormat(
            name="circo",
            title="CIRCO",
            parts=(SubmissionPart("it2i", 50, "", _circo),),
            where="https://circo.micc.unifi.it/",
            reference="https://github.com/miccunifi/CIRCO, section Submission Format",
        ),
        SubmissionFormat(
            name="cirr",
            title="CIRR",
            parts=(
                SubmissionPart(
                    "it2i", 50, "recall", lambda answers: {"version": VERSION, "metric": "recall", **answers}
                ),
                SubmissionPart(
                    "subset",
                    3,
                    "recall_subset",
                    lambda answers: {"version": VERSION, "metric": "recall_subset", **answers},
                ),
            ),
            where="https://cirr.cecs.anu.edu.au/",
            reference="https://github.com/Cuberick-Orion/CIRR, Test-split_server.md",
        ),
    )
}
"""The forms in which benchmarks take answers whose judgements they keep, by the name that a source of tasks says."""


def answers_of(run: Run, depth: int) -> dict[str, list[str]]:
    """The best documents of each query."""
    ids = run.documents.to_pylist()
    cuts = zip(run.queries.to_pylist(), run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    indices = run.indices.tolist()
    return {query: [ids[index] for index in indices[a : min(b, a + depth)]] for query, a, b in cuts}


@dataclass(frozen=True, repr=False)
class Submission(Displayed):
    """The files of a submission."""

    benchmark: str  # what people call the benchmark
    system: str  # what answered
    files: tuple[Path, ...]  # what was written
    runs: Mapping[str, Run]  # by task: the answers
    where: str  # where the files are handed in
    notes: tuple[str, ...] = ()  # what else is worth knowing

    def __repr__(self) -> str:
        lines = [f"{task}: {counted(len(run), 'queries')}" for task, run in self.runs.items()]
        return brief(
            self,
            f"{self.benchmark}, {self.system}",
            *lines,
            f"files: {', '.join(map(str, self.files))}",
            f"hand in: {self.where}",
        )


def submit(
    source: Any,
    system: Any,
    out: str | PathLike[str],
    *,
    split: str = "test",
    images: Any = None,
    compose: str | None = None,
    name: str | None = None,
    replace: bool = False,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> Submission:
    """Answer the queries of a split whose judgements are not published, and write what the benchmark takes.

    Nothing is measured. CIRCO takes one file; CIRR takes two, whose names end in `-recall` and `-recall_subset`.

    Args:
        source: A benchmark with such a form: CIRCO, CIRR.
        system: A model or its name, runs, or another system, as of `visir.evaluate`.
        out: The file to write: "submission.json".
        split: The split that is answered. "test" is also the test split of another name ("test1").
        images: Where the pictures are.
        compose: As of `visir.evaluate`: how a model composes a text and an image.
        name: What the system is called.
        replace: Whether files that are there may be replaced.
        device: Where a model that is named is run.
        dtype: Its arithmetic.
        **encoding: Options of `visir.encoders.encode_items`.

    Returns:
        The files that were written, and the runs.

    Raises:
        ConfigurationError: The source is no benchmark that takes submissions.
        ProtocolError: A query has fewer answers than the benchmark takes.

    Example:
        >>> import visir
        >>> visir.submit("scenes:12?size=64", "pixels", "answers.json")
        Traceback (most recent call last):
        ...
        visir.errors.ConfigurationError: scenes: it has no form of submissions...
    """
    check_open_options(encoding, "submit")
    whole: Any = open_tasks(source, images)
    form = _form(whole)
    split = next((known for known in whole.splits if known == split), f"{split}1" if split == "test" else split)
    part = whole.split(split)
    tasks = {wanted.task: _to_search(part.task(wanted.task)) for wanted in form.parts}
    subject = system_of(opened(system, tasks, device=device, dtype=dtype), None, name, **encoding)
    if compose is not None:
        subject = composed_system(subject, compose, tasks, whole, split)
    unanswered = [task for task in tasks if not subject.answers(task)]
    if unanswered:
        raise ConfigurationError(
            f"{form.title} takes answers of {' and '.join(tasks)}; there are none of {unanswered[0]}.",
            hint=f"give the runs by task: {{{unanswered[0]!r}: run}}",
        )
    subject.prepare(list(tasks.values()))
    runs: dict[str, Run] = {}
    for wanted in form.parts:
        _, ranked = subject.rank({wanted.task: [tasks[wanted.task]]}, depth=wanted.depth, ties="id")
        runs |= ranked
    contents = {}
    for wanted in form.parts:
        answers = answers_of(runs[wanted.task], wanted.depth)
        _check_complete(form, wanted, answers, tasks[wanted.task])
        contents[_file(Path(out), wanted)] = json_bytes(wanted.content(answers))
    for file, content in contents.items():
        write_new(file, content, replace=replace)
    return Submission(form.title, name or subject.name, tuple(contents), runs, form.where, tuple(subject.notes))


def _form(source: Any) -> SubmissionFormat:
    parts = getattr(source, "parts", {})
    named = getattr(next(iter(parts.values()), source), "submission", "")
    if named not in FORMATS:
        raise ConfigurationError(
            f"{source.name}: it has no form of submissions.",
            hint=f"there are those of {', '.join(form.title for form in FORMATS.values())}"
            + (f"; {nearest(named, FORMATS)}" if named else ""),
            code="no-form-submissions",
        )
    return FORMATS[named]


def _to_search(task: Task) -> Task:
    """The task with all of its queries to be searched: each is judged with one document that is not relevant."""
    ids, first = task.queries.ids, task.documents.ids[:1]
    documents = first.take(pa.array(np.zeros(len(ids), np.int64)))
    qrels = Qrels.of(ids, documents, np.zeros(len(ids), np.float32), name="none")
    return changed(task, qrels={qrels.name: qrels})


def _check_complete(form: SubmissionFormat, part: SubmissionPart, answers: dict[str, list[str]], task: Task) -> None:
    fewer = [query for query in task.queries.ids.to_pylist() if len(answers.get(query, [])) < part.depth]
    if fewer:
        raise ProtocolError(
            f"{form.title} takes {part.depth} answers of each query of {part.task}; "
            f"{counted(len(fewer), 'queries', 'have')} fewer, e.g. {fewer[0]!r}: {len(answers.get(fewer[0], []))}.",
            hint=f"search {part.depth} deep, in the whole gallery",
            code="takes-answers-each-query",
        )


def _file(out: Path, part: SubmissionPart) -> Path:
    return out.with_name(f"{out.stem}-{part.ending}{out.suffix or '.json'}") if part.ending else out
