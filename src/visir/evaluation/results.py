"""What an evaluation gives, and how it is saved and loaded again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Plotted, Tabular
from visir.errors import VisirError
from visir.evaluation.by_label import ByLabel, by_label
from visir.evaluation.label_differences import LabelDifferences, label_differences
from visir.evaluation.measures import Named, read_measure
from visir.evaluation.mteb.results import write_mteb
from visir.evaluation.result_files import RESULT, open_result, read_result, runs_and_qrels, write_result
from visir.evaluation.typical_measures import typical_measures
from visir.records import Protocol, Qrels, Result, Run
from visir.storage import new_folder


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular, Plotted, view="visir.reports.views.evaluation"):
    """What was measured: the numbers of a system, query by query, its answers, and the protocol.

    `evaluation["t2i R@1"]` is a number; fractions are in [0, 1], rsum is in percentage points. `visir.evaluate` makes
    an evaluation; `save` writes it into a folder, and `visir.open` reads it back.

    Attributes:
        result: The measured values and their protocol.
        runs: By task: the answers of the search.
        qrels: By task: the judgements.

    Example:
        >>> import visir
        >>> judged = {"q1": {"a": 1}, "q2": {"b": 1}}
        >>> evaluation = visir.evaluate(judged, {"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 0.8, "b": 0.5}})
        >>> evaluation["MRR"], evaluation["Success@1"]
        (0.75, 0.5)
    """

    result: Result
    runs: Mapping[str, Run] = field(default_factory=dict)
    qrels: Mapping[str, Qrels] = field(default_factory=dict)

    @property
    def system(self) -> str:
        """The name of the system."""
        return self.result.system

    @property
    def protocol(self) -> Protocol:
        """What was searched, and how it was measured."""
        return self.result.protocol

    @property
    def card(self) -> dict[str, str]:
        """The protocol as lines for people: label to value."""
        return dict(self.protocol.card())

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that were measured, such as ("i2t", "t2i")."""
        return self.result.tasks

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures of each query."""
        return self.result.measures

    @property
    def aggregates(self) -> dict[str, dict[str, float]]:
        """For each task {measure: value}; under "both" the sums over both tasks."""
        return self.result.aggregates

    @property
    def per_query(self) -> dict[str, pa.Table]:
        """For each task a table with the column `query_id` and one column per measure."""
        return self.result.per_query

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        return self.result.notes

    @property
    def origins(self) -> dict[str, str]:
        """Where vectors or runs come from, and when they were computed."""
        return self.result.origins

    @property
    def timing(self) -> dict[str, float]:
        """Seconds by stage."""
        return self.result.timing

    @property
    def labels(self) -> Mapping[str, pa.Table]:
        """For each task whose queries have labels: `query_id` and one column per label."""
        return self.result.labels

    @property
    def captions(self) -> pa.Table | None:
        """The captions of the result: enough to re-score the runs under other readings."""
        return self.result.captions

    def __repr__(self) -> str:
        return repr(self.result).replace("Result(", "Evaluation(", 1)

    def mean(self, task: str, measure: str) -> float:
        """One number of one task.

        Args:
            task: "t2i", …, or "both" for sums over both tasks.
            measure: The measure as people type it: "R@1" (the recall that the protocol declares), "nDCG@10", "rsum".

        Returns:
            A fraction in [0, 1], a rank from 1, or percentage points for rsum.

        Raises:
            VisirError: The task was not measured, or the measure is unknown or was not measured.
        """
        return self.result.mean(task, self._column(task, measure))

    def values(self, task: str, measure: str) -> NDArray[np.float64]:
        """The values of a measure for each query, in the order of `per_query[task]["query_id"]`.

        Args:
            task: The task.
            measure: The measure as people type it.

        Raises:
            VisirError: The task was not measured, or the measure is unknown or was not measured.
        """
        return self.result.values(task, self._column(task, measure))

    def by(self, label: str, measures: Sequence[str] | str | None = None) -> ByLabel:
        """The measures for each value of a label of the queries: by category, by language.

        Args:
            label: The name of the label.
            measures: Measures as people type them. None takes the recall that the protocol names, as far as it was
                measured, or else every measure.

        Returns:
            One row for each task and value, with the number of queries, the mean and its 95 % interval.

        Raises:
            VisirError: No task has such a label, or a measure was not measured.

        Example:
            >>> import visir
            >>> from visir.records import Items, Qrels, Task
            >>> queries = Items.of_texts({"q1": "red", "q2": "two"}, title="queries")
            >>> documents = Items.of_texts({"d1": "red", "d2": "blue"}, title="documents")
            >>> labels = {"query_id": ["q1", "q2"], "category": ["colour", "count"]}
            >>> qrels = {"links": Qrels.of(["q1", "q2"], ["d1", "d2"])}
            >>> task = Task("t2t", queries, documents, qrels, labels=labels)
            >>> by = visir.evaluate(task, "bm25").by("category", "R@1")
            >>> [(row.label, row.queries, row.values["hit@1"].mean) for row in by.rows]
            [('colour', 1, 1.0), ('count', 1, 0.0)]
        """
        typed = [measures] if isinstance(measures, str) else measures
        names = None if typed is None else [self._column(task, name) for name in typed for task in self.tasks]
        return by_label(self.result, label, None if names is None else list(dict.fromkeys(names)))

    def differences(self, label: str, measure: str | None = None, reference: str | None = None) -> LabelDifferences:
        """How far the values of a label are apart, over the images that both have: languages against each other.

        Args:
            label: The name of the label: "language".
            measure: A measure as people type it; None takes the first that `by` shows.
            reference: The value that the table compares the others with; None takes "en", or else the first.

        Raises:
            VisirError: No task has such a label with two values, or the measure was not measured.
        """
        names = typical_measures(self.result) if measure is None else [self._column(self.tasks[0], measure)]
        if not names:
            raise VisirError(f"{self.system}: no measure has a mean.", hint='visir.evaluate(…, measures=["R@1"])')
        return label_differences(self.result, label, names[0], reference)

    def __getitem__(self, name: str | tuple[str, str]) -> float:
        task, measure = name if isinstance(name, tuple) else self._split(name)
        return self.mean(task, measure)

    def save(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write the evaluation into a folder, complete or not at all; `visir.open` reads it back.

        Args:
            folder: A new folder, or an empty one.
            replace: Replace an earlier result in the folder; other files in it stay.

        Returns:
            The folder.

        Raises:
            FolderError: The folder holds an earlier result, something else, or changed files of a result.
        """
        return save(self, folder, replace=replace)

    to_mteb = write_mteb

    def _split(self, name: str) -> tuple[str, str]:
        """The task and the measure of "t2i R@1"; of "R@1" alone, where there is one task."""
        first, _, rest = name.strip().partition(" ")
        if rest and first in (*self.tasks, "both"):
            return first, rest.strip()
        if len(self.tasks) == 1:
            return self.tasks[0], name
        if name.casefold() == "rsum" and "both" in self.aggregates:
            return "both", name
        if name.strip() in (*self.tasks, "both"):
            measure = next(iter(self.aggregates[name.strip()]))
            raise VisirError(f"{name!r}: which measure of it?", hint=f"write evaluation['{name.strip()} {measure}']")
        example = f"evaluation[{f'{self.tasks[0]} {rest or name}'!r}]"
        raise VisirError(
            f"{name!r}: of which task? There are {', '.join(self.tasks)}.",
            hint=f"write {example}",
            code="task-not-said",
        )

    def _column(self, task: str, typed: str) -> str:
        """The column of a measure as people type it."""
        present = self.aggregates.get(task, {})
        if typed in present:
            return typed
        if typed.casefold() == "rsum":
            return "rsum"
        named = read_measure(typed, self.protocol.recall)
        if isinstance(named, Named):
            if present and named.name not in present:
                raise VisirError(
                    f"{self.system}: {named.name} was not measured. Measured are {', '.join(present)}.",
                    hint=f"visir.evaluate(…, measures=[{typed!r}])",
                    code="not-measured",
                )
            return named.name
        if present:
            raise VisirError(f"{self.system}: {named}", hint=f"measured are {', '.join(present)}")
        return typed


def save(
    result: Result | Evaluation,
    folder: str | Path,
    *,
    runs: Mapping[str, Run] | None = None,
    qrels: Mapping[str, Qrels] | None = None,
    replace: bool = False,
) -> Path:
    """Write a result, or a whole evaluation, into a folder, complete or not at all.

    Args:
        result: The result, or the evaluation with its runs and judgements.
        folder: A new folder, or an empty one.
        runs: The runs by task, if `result` is a `Result`.
        qrels: The judgements by task, if `result` is a `Result`.
        replace: Replace an earlier result in the folder; other files in it stay.

    Returns:
        The folder.

    Raises:
        FolderError: The folder holds an earlier result, something else, or changed files of a result.

    Example:
        >>> import tempfile
        >>> from visir.evaluation.scoring import score
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> from visir.records import Protocol, Ranks
        >>> grades = np.ones(2, np.float32)
        >>> ranks = Ranks(pa.array(["q1", "q2"]), np.array([0, 1, 2]), np.array([1, 2]), grades, None, 4)
        >>> protocol = Protocol(collection="example", collection_fingerprint="stated", split="test")
        >>> result = score("by hand", {"t2i": [ranks]}, protocol, measures=["hit@1"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load(save(result, f"{folder}/result")).aggregates == result.aggregates
        True
    """
    if isinstance(result, Evaluation):
        runs, qrels, result = result.runs, result.qrels, result.result
    with new_folder(folder, RESULT, replace=replace) as change:
        write_result(change, result, runs or {}, qrels or {})
    return Path(folder)


def load(folder: str | Path) -> Result:
    """Read the result in a folder.

    Args:
        folder: The folder, or its `result.json`.

    Returns:
        The result, without runs and judgements; see `load_evaluation`.

    Raises:
        VisirError: A file is missing, or the protocol was altered.
    """
    folder, content = open_result(folder)
    with RESULT.reading(folder, "result.json"):
        return read_result(folder, content)


def load_evaluation(folder: str | Path) -> Evaluation:
    """Read a result with its runs and judgements, as far as they were saved.

    Args:
        folder: The folder, or its `result.json`.

    Returns:
        The evaluation; runs and judgements that were not saved are absent.

    Raises:
        VisirError: A file is missing, or the protocol was altered.
    """
    folder, content = open_result(folder)
    with RESULT.reading(folder, "result.json"):
        runs, qrels = runs_and_qrels(folder, content["files"])
    return Evaluation(load(folder), runs, qrels)
