"""What people hand in as a system: names, pairs of functions, vectors as arrays and dictionaries, runs in any form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders import Encoder, load
from visir.errors import ConfigurationError, RunError
from visir.evaluation.systems.base import System
from visir.evaluation.systems.blind import PREFIX, BlindSystem
from visir.evaluation.systems.bm25 import Bm25System
from visir.records import Embeddings, MultiVectorEmbeddings, Run, SparseEmbeddings, Task, Vectors, show_id_forms
from visir.retrieval.formats import read_run
from visir.retrieval.formats.files import has_trec_lines

RUN_FILES = (".trec", ".run", ".txt", ".res", ".parquet", ".json")
SIDES = ("image", "text", "query", "document")

FORMS = (
    "give a model or its name, two functions (Encoder.wrap), a run ({query: {document: score}}, a data frame, a file), "
    "or vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
)
"""What is taken as a system, in words."""


def is_run_file(name: object) -> bool:
    """Whether a text is the path of a file with a run: by its ending, "b.trec", "runs/a.json.gz", or by its lines."""
    if not isinstance(name, (str, Path)) or ":" in str(name).partition("/")[0]:
        return False
    endings = [ending for ending in Path(name).suffixes if ending not in (".gz", ".xz")]
    return (bool(endings) and endings[-1].lower() in RUN_FILES) or has_trec_lines(name)


def is_run(given: object) -> bool:
    """Whether an object is a run of another tool: a dictionary of dictionaries, a table, a list of scored documents."""
    if isinstance(given, Run):
        return True
    if isinstance(given, Mapping):
        values = list(given.values())
        return bool(values) and all(isinstance(value, Mapping) for value in values) and not set(given) <= set(SIDES)
    if isinstance(given, (list, tuple)):
        first = given[0] if given else None
        scored = isinstance(first, tuple) and len(first) == 3
        matrix = isinstance(given, tuple) and len(given) == 3 and np.ndim(given[0]) == 2
        return scored or matrix
    return is_run_file(given) or type(given).__module__.partition(".")[0] == "ranx" or hasattr(given, "columns")


def is_runs(given: object, tasks: Mapping[str, Task]) -> bool:
    """Whether a dictionary holds runs by task, in any form."""
    return isinstance(given, Mapping) and bool(given) and set(given) <= set(tasks) and all(map(is_run, given.values()))


def opened(given: Any, tasks: Mapping[str, Task], *, device: str | None = None, dtype: str = "float32") -> Any:
    """Make of what people hand in what `system_of` takes; what it takes already stays as it is."""
    if isinstance(given, (System, Encoder)):
        return given
    if isinstance(runs := getattr(given, "runs", None), Mapping) and runs:  # an evaluation: measured again
        return {task: run for task, run in runs.items() if task in tasks}
    if is_run_file(given) and not Path(given).is_file():
        raise ConfigurationError(
            f"{given}: no such file.", hint="name the file of a run, or a model", code="no-such-file"
        )
    if is_runs(given, tasks):
        return {
            task: run if isinstance(run, Run) and run.task in tasks else read_run(run, task=task)
            for task, run in given.items()
        }
    if is_run(given):
        run = read_run(given)
        return run if run.task in tasks else read_run(run, task=task_of(run, tasks))
    if given == "bm25":
        return Bm25System()
    if isinstance(given, str) and given.startswith(PREFIX):
        return BlindSystem(given.removeprefix(PREFIX))
    if isinstance(given, (str, PathLike)):
        return load(given, device=device, dtype=dtype)
    functions = _functions(given)
    return Encoder.wrap("functions", **functions) if functions else given


def _functions(given: object) -> dict[str, Any]:
    """The two functions of a pair (image, text), or of a dictionary; none if these are no functions."""
    if isinstance(given, (tuple, list)) and len(given) == 2:
        given = {"image": given[0], "text": given[1]}
    if not isinstance(given, Mapping) or not given or not set(given) <= {"image", "text"}:
        return {}
    return dict(given) if all(map(callable, given.values())) else {}


def task_of(run: Run, tasks: Mapping[str, Task]) -> str:
    """The task whose queries a run answers."""
    counts = {
        name: int(pc.sum(pc.is_in(run.queries, task.measured_queries())).as_py() or 0) for name, task in tasks.items()
    }
    best = [name for name, count in counts.items() if count and count == max(counts.values())]
    if len(best) == 1:
        return best[0]
    if best:
        raise RunError(
            f"run {run.name}: its queries may be those of {' and of '.join(best)}.",
            hint=f"say which: {{{best[0]!r}: run}}",
        )
    forms = [
        show_id_forms("run", run.queries.to_pylist(), name, task.measured_queries().to_pylist())
        for name, task in tasks.items()
    ]
    matching = [form for form in forms if "they differ" in form]
    raise RunError(
        f"run {run.name} answers no query of {', '.join(tasks)}.",
        hint="; ".join(matching or forms),
        code="run-answers-no-query",
    )


def vectors_by_side(vectors: Mapping[str, Any], tasks: Sequence[Task], name: str | None = None) -> dict[str, Vectors]:
    """Make embeddings of vectors by side."""
    # vectors: By "image" and "text", or by "query" and "document": {id: vector}, (ids, matrix), or `Embeddings`; {id:
    # (t, d) vectors}, (ids, list of these), or `MultiVectorEmbeddings`. A text may stand in place of its id.
    example = "vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
    if not isinstance(vectors, Mapping) or set(vectors) not in ({"image", "text"}, {"query", "document"}):
        keys = ", ".join(map(repr, vectors)) if isinstance(vectors, Mapping) else f"a {type(vectors).__name__}"
        raise ConfigurationError(
            f"vectors are given for {keys or 'nothing'}.", hint=f"{example}, or of 'query' and 'document'"
        )
    modalities = {"image": "image", "text": "text"}
    if tasks:
        modalities |= {"query": tasks[0].queries.modality, "document": tasks[0].documents.modality}
    return {
        side: _by_id(_embeddings(value, side, modalities.get(side, side), name), side, tasks)
        for side, value in vectors.items()
    }


def _by_id(given: Vectors, side: str, tasks: Sequence[Task]) -> Vectors:
    """Vectors under the ids of the tasks; those under texts (of `visir.encode(model, texts)`) get the ids of these."""
    roles = [(role, items) for task in tasks for role, items in (("query", task.queries), ("document", task.documents))]
    texts = {
        id_: text
        for role, items in roles
        if side in (role, items.modality) and items.texts is not None
        for id_, text in zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True)
    }
    rows = {key: row for row, key in enumerate(given.ids.to_pylist())}
    if not texts or not rows.keys().isdisjoint(texts) or not rows.keys() >= set(texts.values()):
        return given
    if isinstance(given, SparseEmbeddings):
        return given
    order, ids = [rows[text] for text in texts.values()], pa.array(list(texts), pa.string())
    if isinstance(given, Embeddings):
        return dataclasses.replace(given, ids=ids, vectors=given.vectors[order])
    several = given.tokens.take(np.array(order))
    return dataclasses.replace(given, ids=ids, offsets=several.offsets, vectors=several.vectors)


def _embeddings(value: Any, side: str, modality: str, name: str | None) -> Vectors:
    if isinstance(value, Vectors):
        return value
    if not isinstance(value, Mapping) and not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise ConfigurationError(
            f"vectors[{side!r}] is a {type(value).__name__}; which vector belongs to which id?",
            hint=f"vectors={{{side!r}: (ids, matrix), …}} or {{{side!r}: {{id: vector}}, …}}",
        )
    given: Any = value if isinstance(value, Mapping) else tuple(value)
    kind = MultiVectorEmbeddings if _several(given) else Embeddings
    return kind.of(given, modality=modality, name=name or "own vectors")  # type: ignore[arg-type]


def _several(given: Mapping[str, Any] | tuple[Any, Any]) -> bool:
    """Whether an id has several vectors: an array with two axes, or a list of vectors."""
    vectors = list(given.values()) if isinstance(given, Mapping) else given[1]
    if len(shape := getattr(vectors, "shape", ())) > 1 or len(vectors) == 0:
        return len(shape) == 3
    first = vectors[0]
    if hasattr(first, "shape"):
        return len(first.shape) == 2 and not hasattr(first, "toarray")  # a row of a sparse matrix has two axes
    return isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1
