"""The form of a submission: which tasks it holds, how deep, and as which JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from visir.records import Run


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


def answers_of(run: Run, depth: int) -> dict[str, list[str]]:
    """The best documents of each query."""
    ids = run.documents.to_pylist()
    cuts = zip(run.queries.to_pylist(), run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    indices = run.indices.tolist()
    return {query: [ids[index] for index in indices[a : min(b, a + depth)]] for query, a, b in cuts}
