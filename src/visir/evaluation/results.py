"""What an evaluation gives, and how it is saved and loaded again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, view_function
from visir.errors import VisirError
from visir.evaluation.by_label import ByLabel, LabelDifferences, by_label, label_differences
from visir.evaluation.measures import RSUM_CUTOFFS, Named, beyond_rank, read_measure
from visir.evaluation.mteb import write_mteb
from visir.evaluation.scoring import typical_measures
from visir.files import is_file, is_there, read_json
from visir.parquet import read_table as read_parquet
from visir.records import Protocol, Qrels, Result, Run
from visir.retrieval.formats import read_run, write_run
from visir.storage import MANIFEST, FolderChange, FolderKind, Manifest, check_version, check_written, new_folder

# Results on disk: plain open files in one folder, written atomically.

FORMAT = 2
RESULT = FolderKind("result", "a result", remedy="evaluate again: visir evaluate … --out FOLDER")


def is_result(path: str | Path) -> bool:
    """Whether a path is a folder with a result, or a `result.json`."""
    path = Path(path)
    return is_file(path / "result.json") or (path.name == "result.json" and is_file(path))


def open_result(given: str | Path) -> tuple[Path, dict[str, Any]]:
    """Open the folder of a result."""
    folder = Path(given)
    folder = folder.parent if folder.name == "result.json" else folder
    if not is_file(folder / "result.json"):
        if is_file(folder / MANIFEST):
            Manifest.read(folder)  # a damaged one tells no kind
        raise VisirError(
            f"{folder}: {'no result.json in it' if is_there(folder) else 'no such folder'}.",
            hint="name the folder that visir evaluate --out wrote; without result.json an evaluation did not finish",
        )
    content = read_json(folder / "result.json")
    if not isinstance(content, dict) or "visir_result" not in content:
        raise VisirError(
            f"{folder / 'result.json'}: not a result of visir evaluate.",
            hint=RESULT.remedy,
            code="not-result-visir-evaluate",
        )
    path = folder / "result.json"
    check_version(content["visir_result"], FORMAT, path, what="result", remedy=RESULT.remedy)
    check_written(path)
    return folder, content


def write_result(
    change: FolderChange, result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels], folder: str = ""
) -> None:
    """Write the files of a result into a folder that is being created."""
    files: list[str] = []

    def table(name: str, content: pa.Table) -> None:
        pq.write_table(content, change.file(folder + name), compression="zstd")
        files.append(name)

    for task, values in result.per_query.items():
        table(f"per_query_{task}.parquet", values)
    for task, run in runs.items():
        write_run(run, change.file(f"{folder}run_{task}.parquet"))
        files.append(f"run_{task}.parquet")
    for task, judged in qrels.items():
        queries = judged.queries.take(pa.array(np.repeat(np.arange(len(judged)), np.diff(judged.offsets))))
        columns = {"query_id": queries, "document_id": judged.documents, "grade": judged.grades}
        table(f"qrels_{task}.parquet", pa.table(columns).replace_schema_metadata({"relevance": judged.name}))
    for kind, tables in (("labels", result.labels), ("chance", result.chance)):
        for task, content in tables.items():
            table(f"{kind}_{task}.parquet", content)
    if result.captions is not None:
        table("captions.parquet", result.captions)
    change.write_json(f"{folder}result.json", {"visir_result": FORMAT, **result.to_dict(), "files": files})


def read_result(folder: Path, content: Mapping[str, Any]) -> Result:
    """Read a result from its files."""
    protocol = Protocol.from_dict(content["protocol"])
    if protocol.fingerprint != content["protocol_fingerprint"]:
        raise VisirError(
            f"{folder / 'result.json'}: the protocol was altered after the evaluation (its hash does not fit).",
            hint="evaluate again; a number must not travel with another protocol",
            code="protocol-altered-after-evaluation",
        )

    def by_task(kind: str) -> dict[str, pa.Table]:
        return {
            name.removeprefix(kind).removesuffix(".parquet"): read_table(folder / name)
            for name in content["files"]
            if name.startswith(kind)
        }

    per_query = by_task("per_query_")
    beyond = content.get("beyond")
    if beyond is None:  # written before results counted them
        last = protocol.depth
        counts = {} if last is None else {task: beyond_rank(table, last) for task, table in per_query.items()}
        beyond = {task: count for task, count in counts.items() if count}
    return Result(
        str(content["system"]),
        protocol,
        per_query,
        {
            task: {name: _number(value) for name, value in named.items()}
            for task, named in content["aggregates"].items()
        },
        dict(content["versions"].items()),
        content["timing"],
        tuple(content["notes"]),
        read_table(folder / "captions.parquet") if "captions.parquet" in content["files"] else None,
        dict(content.get("origins", {}).items()),
        by_task("labels_"),
        by_task("chance_"),
        beyond,
    )


def _number(value: Any) -> float:
    """A value of a result as it was written; JSON has null for NaN."""
    if not isinstance(value, (int, float, type(None))):
        raise TypeError(f"{value!r} is no number")
    return float("nan") if value is None else value


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of a result."""
    if not path.is_file():
        raise VisirError(
            f"{path} belongs to the result and is missing.",
            hint="copy the whole folder, or evaluate again",
            code="belongs-result-missing",
        )
    try:
        return read_parquet(path)
    except pa.ArrowInvalid as fault:
        raise VisirError(
            f"{path}: not a readable Parquet file: {fault}", hint="evaluate again", code="not-readable-parquet-file"
        ) from fault


def runs_and_qrels(folder: Path, files: list[str]) -> tuple[dict[str, Run], dict[str, Qrels]]:
    """Read the runs and the judgements of a result, by task."""
    runs: dict[str, Run] = {}
    qrels: dict[str, Qrels] = {}
    for file in files:
        kind, _, task = file.removesuffix(".parquet").partition("_")
        if kind == "run":
            runs[task] = read_run(folder / file)
        elif kind == "qrels":
            judged = read_table(folder / file)
            name = (judged.schema.metadata or {}).get(b"relevance", b"links").decode()
            qrels[task] = Qrels.of(judged["query_id"], judged["document_id"], judged["grade"].to_numpy(), name=name)
    return runs, qrels


def plain(value: Any) -> Any:
    """Values of a record as JSON has them: what is not defined (NaN) is None."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and isnan(value) else value


class Saved:
    """A study that can be written into a folder. What writes it is in a later room: an entry of its view."""

    def save(self, folder: str | Path) -> Path:
        """Write every number, the tables and a page into a folder, complete or not at all."""
        view_function(self, "save")(self, Path(folder))
        return Path(folder)


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular, Plotted):
    """What was measured: the numbers of a system, query by query, its answers, and the protocol.

    `evaluation["t2i R@1"]` is a number; fractions are in [0, 1], rsum is in percentage points. `visir.evaluate` makes
    an evaluation; `save` writes it into a folder, and `visir.open` reads it back.

    Attributes:
        result: The measured values and their protocol.
        runs: By task: the answers of the search.
        qrels: By task: the judgements.
        source: What was searched, where it is at hand: a page shows its pictures. It is not saved.

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
    source: Any = field(default=None, repr=False)

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


def rsum_by_image(evaluation: Evaluation) -> NDArray[np.float64]:
    """The contribution of each image to rsum: its own hits, plus the mean hits of its captions."""
    # With equally many captions per image the mean over images is the rsum of the result.
    # Returns: (images,) points, in the order of the result's i2t queries.
    result, captions = evaluation.result, evaluation.captions
    assert captions is not None, "an evaluation knows its captions"
    hits = {task: sum(result.values(task, f"hit@{k}") for k in RSUM_CUTOFFS) for task in ("i2t", "t2i")}
    images = result.per_query["i2t"]["query_id"].to_pylist()
    row_of = {image: row for row, image in enumerate(images)}
    owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    rows = np.array([row_of[owner[caption]] for caption in result.per_query["t2i"]["query_id"].to_pylist()])
    mean = np.bincount(rows, hits["t2i"], len(images)) / np.bincount(rows, minlength=len(images))
    values: NDArray[np.float64] = 100 * (hits["i2t"] + mean)
    return values
