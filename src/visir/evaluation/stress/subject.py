"""What a system under stress is asked: which queries over which candidates, plain or perturbed, and who answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.records import Collection, Gallery, Qrels, Ranks, Run, Ties
from visir.search.exact import Searched

PLAIN = "none"
"""The name of the unperturbed condition, as in the logs of the brittleness paper."""
DEPTH = 10
"""How deep answers are kept: rsum and dcg_cm look no further, and pictures of answers show fewer."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The unperturbed side of a study, the same for every condition.

    - `collection`: the images and captions that take part; `pool`: where candidates come from (the same, or the whole)
    - `galleries`, `qrels`: candidates and judgements of each task; `ties`: the rule
    """

    collection: Collection
    pool: Collection
    galleries: Mapping[str, Gallery]
    qrels: Mapping[str, Qrels]
    ties: Ties = "id"


@dataclass(frozen=True, eq=False)
class Condition:
    """One way of asking: `name` ("none", "nearby_char", "jpeg"), the `view` of the collection whose captions or
    pictures are the queries, and the ids of the `queries` that must be asked, because they are not the plain ones.
    """

    name: str
    view: Collection
    queries: pa.StringArray


class Subject(ABC):
    """Whatever can be stressed: it answers queries over the setup's galleries, as a `Run` with the ranks of positives.

    `name`: what the system is called. Three kinds come with visir: an encoder (`stress_encoder.py`), runs that somebody
    made (`stress_runs.py`), a command that searches (`stress_command.py`).

    `notes`: what a reader of the numbers must know, collected while answering; `spent`: seconds in the system itself
    (encoding, the command), which are not the study's.
    """

    name: str

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self.spent = 0.0

    @abstractmethod
    def answer(self, setup: Setup, task: str, condition: Condition) -> Searched:
        """The answers to the condition's queries, at least `DEPTH` deep; it may answer others of the setup's as well.

        `ranks` cover the condition's queries and whatever else was answered, in the order of `setup.qrels`.
        """

    def fields(self, setup: Setup) -> dict[str, str]:
        """What the system says of itself on the protocol card (preprocessing, truncation, similarity)."""
        return {}

    def offered(self, task: str) -> Sequence[str] | None:
        """The conditions this subject can answer in a task; None for any."""
        return None


def merged(plain: Searched, anew: Searched, qrels: Qrels) -> Searched:
    """The plain answers with those that were asked anew in their place: one run over all queries.

    A query that was not asked again is one whose caption a perturbation left as it is: it has its plain answer. A query
    that was asked and not answered has none.
    """
    assert plain.ranks is not None and anew.ranks is not None, "answers come with ranks"
    before, after = plain.ranks, anew.ranks
    row = pc.fill_null(pc.index_in(before.queries, after.queries), -1).to_numpy(zero_copy_only=False)
    asked = row >= 0
    ranks, grades = before.ranks.copy(), before.grades.copy()
    inside = np.repeat(asked, before.positives)
    # Both are in the order of the judgements and have the same positives, so the flat arrays line up.
    ranks[inside], grades[inside] = after.ranks, after.grades
    depths = [one.depth for one in (before, after) if one.depth is not None]
    joined = Ranks(before.queries, before.offsets, ranks, grades, min(depths) if depths else None, before.gallery_size)
    return Searched(_joined(plain.run, anew.run, before.queries, asked), joined)


def unanswered(ranks: Ranks, qrels: Qrels) -> Ranks:
    """The ranks of all of `qrels`, where `ranks` has only some of its queries: the others found nothing."""
    row = pc.is_in(qrels.queries, ranks.queries).to_numpy(zero_copy_only=False)
    positives = qrels.positives
    offsets = np.concatenate([[0], np.cumsum(positives)]).astype(np.int64)
    inside = np.repeat(row, positives)
    found, grades = np.zeros(offsets[-1], np.int64), qrels.grades[qrels.grades > 0].copy()
    found[inside], grades[inside] = ranks.ranks, ranks.grades
    return Ranks(qrels.queries, offsets, found, grades, ranks.depth, ranks.gallery_size)


def _joined(plain: Run, anew: Run, queries: pa.StringArray, asked: NDArray[np.bool_]) -> Run:
    """For each query the answer of `anew` where it was asked, otherwise that of `plain`; empty where there is none."""
    documents = pa.concat_arrays([plain.documents, anew.documents]).unique()
    indices, offsets = [], []
    for run in (plain, anew):
        place = pc.index_in(run.documents, documents).to_numpy(zero_copy_only=False).astype(np.int32)
        indices.append(place[run.indices])
        at = pc.fill_null(pc.index_in(queries, run.queries), -1).to_numpy(zero_copy_only=False)
        starts = np.where(at < 0, 0, run.offsets[at])
        offsets.append((starts, np.where(at < 0, 0, run.offsets[at + 1] - starts)))
    shift = len(plain.indices)
    starts = np.where(asked, offsets[1][0] + shift, offsets[0][0])
    lengths = np.where(asked, offsets[1][1], offsets[0][1])
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])
    return Run(
        anew.name,
        plain.task,
        queries,
        ends,
        documents,
        np.concatenate(indices)[flat],
        np.concatenate([plain.scores, anew.scores])[flat],
        plain.gallery,
        min(plain.depth, anew.depth),
        dict(anew.provenance),
    )
