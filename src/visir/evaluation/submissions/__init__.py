"""The forms in which benchmarks take answers whose judgements they keep. A new one is a line of `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from visir.records import Run

__all__ = ["FORMATS", "SubmissionFormat"]


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
    """The form in which a benchmark takes answers.

    Attributes:
        name: By which sources name it.
        title: What people call the benchmark.
        parts: Its files.
        where: Where they are handed in.
        reference: Where the form is described.
    """

    name: str
    title: str
    parts: tuple[SubmissionPart, ...]
    where: str
    reference: str


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
