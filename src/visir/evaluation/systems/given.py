"""What people hand in as a system: names, functions, vectors in arrays and files, runs in any form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.errors import ConfigurationError, RunError, nearest
from visir.evaluation.assembly import Assembly
from visir.evaluation.systems.base import System
from visir.evaluation.systems.runs import RunSystem, by_task
from visir.evaluation.systems.vectors import OF_EVALUATION, EncoderSystem, VectorSystem
from visir.files import is_file, is_there
from visir.records import (
    Embeddings,
    Items,
    MultiVectorEmbeddings,
    Role,
    Run,
    SparseEmbeddings,
    Task,
    Vectors,
    show_id_forms,
)
from visir.retrieval.formats import is_ranking, read_run, run_form
from visir.retrieval.scan import Similarity

AnySystem: TypeAlias = System | Encoder | Run | Iterable[Vectors] | Iterable[Run] | Mapping[str, Vectors | Run]
"""A `System`, or an input of `system_of`: an encoder, a pair of embeddings, runs."""

SIDES = ("image", "text", "query", "document")

BLIND = "blind:"
"""Before the name of a language model that chooses without looking: "blind:gpt2"."""
_TWO_FILES = "--embeddings query=npz:FILE --embeddings document=npz:FILE"

FORMS = (
    "give a model or its name, two functions (Encoder.wrap), a run ({query: {document: score}}, a data frame, a file), "
    "or vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
)
"""What is taken as a system, in words."""


def is_run_file(name: object) -> bool:
    """Whether a text is the path of a file with a run: by its ending, "b.trec", "runs/a.json.gz", or what it holds."""
    if not isinstance(name, (str, Path)) or ":" in str(name).partition("/")[0]:
        return False
    return bool(run_form(name))


def is_run(given: object) -> bool:
    """Whether an object is a run of another tool: a dictionary of dictionaries, a table, a list of scored documents."""
    if isinstance(given, Run):
        return True
    if isinstance(given, Mapping):
        values = list(given.values())
        answers = all(isinstance(value, Mapping) or is_ranking(value) for value in values)
        return bool(values) and answers and not set(given) <= set(SIDES)
    if isinstance(given, (list, tuple)):
        first = given[0] if given else None
        scored = isinstance(first, tuple) and len(first) == 3
        matrix = isinstance(given, tuple) and len(given) == 3 and np.ndim(given[0]) == 2
        return scored or matrix
    return is_run_file(given) or type(given).__module__.partition(".")[0] == "ranx" or hasattr(given, "columns")


def opened(given: Any, tasks: Mapping[str, Task], *, device: str | None = None, dtype: str = "float32") -> Any:
    """Make of what people hand in what `system_of` takes; what it takes already stays as it is."""
    if isinstance(given, (System, Encoder)):
        return given
    if isinstance(runs := getattr(given, "runs", None), Mapping) and runs:  # an evaluation: measured again
        return {task: run for task, run in runs.items() if task in tasks}
    if isinstance(given, (list, tuple)) and given and all(isinstance(file, (str, PathLike)) for file in given):
        return by_task([_run_of_task(*task_and_file(fspath(file)), tasks) for file in given])
    if isinstance(given, str) and (named := task_and_file(given))[0]:
        return _run_of_task(*named, tasks)
    if is_run_file(given) and not is_file(given):
        raise ConfigurationError(
            f"{given}: no such file.", hint="name the file of a run, or a model", code="no-such-file"
        )
    if isinstance(given, Mapping) and bool(given) and set(given) <= set(tasks) and all(map(is_run, given.values())):
        return {
            task: run if isinstance(run, Run) and run.task in tasks else read_run(run, task=task)
            for task, run in given.items()
        }
    if is_run(given):
        return _run_of_task("", given, tasks)
    if given == "bm25":
        from visir.evaluation.systems.bm25 import Bm25System

        return Bm25System()
    if isinstance(given, str) and given.startswith(BLIND):
        from visir.evaluation.systems.blind import BlindSystem

        return BlindSystem(given.removeprefix(BLIND))
    if isinstance(given, (str, PathLike)):
        return load(given, device=device, dtype=dtype)
    functions = _functions(given)
    return Encoder.wrap("functions", **functions) if functions else given


def contestant(
    system: Any,
    vectors: Any,
    assembly: Assembly,
    name: str | None,
    *,
    device: str | None = None,
    dtype: str = "float32",
) -> tuple[Any, str | None]:
    """The system or the vectors as `system_of` takes them, and their name where they have one."""
    if (system is None) == (vectors is None):
        raise ConfigurationError(
            "there is no system to evaluate." if system is None else "system and vectors are given; take one of them.",
            hint=FORMS,
        )
    if vectors is None:
        return opened(system, assembly.tasks, device=device, dtype=dtype), name
    tasks, files = list(assembly.tasks.values()), _files(vectors)
    if files:
        given = vectors_of_files(files, tasks, by_modality=assembly.collection is not None)
        return given, name or Path(files[0].partition("?")[0]).stem
    return vectors_by_side(vectors, tasks, name), name


def _files(vectors: Any) -> list[str]:
    """The names of files of vectors, "FILE" or "SIDE=FILE"; none if these are vectors themselves."""
    if isinstance(vectors, Mapping) and all(isinstance(file, (str, PathLike)) for file in vectors.values()):
        return [f"{side}={fspath(file)}" for side, file in vectors.items()]
    listed = [vectors] if isinstance(vectors, (str, PathLike)) else vectors
    is_listed = isinstance(listed, (list, tuple)) and all(isinstance(file, (str, PathLike)) for file in listed)
    return [fspath(file) for file in listed] if is_listed else []


def task_and_file(name: str) -> tuple[str, str]:
    """The parts of TASK=FILE, a run; "" and the name where no task is named. A path may hold "=" too."""
    task, equals, file = name.partition("=")
    may_be_task = equals and not set(task) & set("/:?\\")  # which stand in the names of models
    return (task, file) if may_be_task and not is_there(name) and is_run_file(file) else ("", name)


def _run_of_task(task: str, given: Any, tasks: Mapping[str, Task]) -> Run:
    """The run of a task; where none is named, of the one whose queries it answers."""
    if task and task not in tasks:
        raise ConfigurationError(f"unknown task {task!r}", hint=nearest(task, tasks), code="unknown-task")
    run = read_run(given, task=task or None)
    return run if run.task in tasks else read_run(run, task=task_of(run, tasks))


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


def vectors_of_files(files: Sequence[str], tasks: Sequence[Task], *, by_modality: bool) -> Any:
    """The vectors of the items of tasks from files, each "FILE" or "SIDE=FILE", as `system_of` takes them."""
    # by_modality: of a collection a file has the vectors of its images, of its texts, or of both.
    named = {side: file for name in files for side, _, file in [name.partition("=")] if side in SIDES}
    held: dict[str, Items] = {side.modality: side for task in tasks for side in (task.queries, task.documents)}
    if named and named.keys() <= held.keys():
        return {side: encode_items(load(vector_file(file)), held[side]) for side, file in named.items()}
    if by_modality and not named:
        encoders = [load(vector_file(file)) for file in files]
        pairs = [(encoder, side) for encoder in encoders for side in ("image", "text") if side in encoder.modalities]
        return [encode_items(encoder, held[side]) for encoder, side in pairs]
    if len(tasks) > 1:
        raise ConfigurationError(
            f"vectors from files go with one task; there are {', '.join(task.name for task in tasks)}.",
            hint="name it with tasks= (--task)",
            code="vectors-of-one-task",
        )
    (task,) = tasks
    sides: dict[Role, Items] = {"query": task.queries, "document": task.documents}
    if len(named) != len(files) and (len(files) > 1 or named):
        raise ConfigurationError(
            f"of {len(files)} files of vectors it is not said which is of the queries and which of the documents.",
            hint=_TWO_FILES,
        )
    if not named and task.queries.modality == task.documents.modality:
        shared_ids = task.queries.ids.filter(pc.is_in(task.queries.ids, task.documents.ids))
        if len(shared_ids):
            raise ConfigurationError(
                f"queries and documents share ids (e.g. {shared_ids[0].as_py()!r}), so one file cannot hold the "
                "vectors of both.",
                hint=_TWO_FILES,
            )
    by_file = {file: load(vector_file(file)) for file in named.values() or files}
    vectors: dict[str, Vectors] = {}
    for role, items in sides.items():
        encoder = by_file[named.get(role, next(iter(by_file)))]
        if items.modality not in encoder.modalities and not set(items.kinds) <= encoder.modalities:
            raise ConfigurationError(f"there are no vectors of the {items.title}.", hint=f"name one: {role}=npz:FILE")
        vectors[role] = encode_items(encoder, items, role)
    return vectors


def vector_file(name: str) -> str:
    """The name of the file as `load` takes it: "npz:FILE"."""
    return name if ":" in name else f"{Path(name).suffix[1:] or 'npy'}:{name}"


def vectors_by_side(vectors: Mapping[str, Any], tasks: Sequence[Task], name: str | None = None) -> dict[str, Vectors]:
    """Make embeddings of vectors by side."""
    # vectors: By "image" and "text", or by "query" and "document": {id: vector}, (ids, matrix), or `Embeddings`; {id:
    # (t, d) vectors}, (ids, list of these), or `MultiVectorEmbeddings`. A text may stand in place of its id.
    example = "vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
    if not isinstance(vectors, Mapping) or set(vectors) not in ({"image", "text"}, {"query", "document"}):
        keys = ", ".join(map(repr, vectors)) if isinstance(vectors, Mapping) else f"a {type(vectors).__name__}"
        raise ConfigurationError(
            f"vectors are given for {keys or 'nothing'}.",
            hint=f"{example}, or of 'query' and 'document'",
            code="vectors-of-other-sides",
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
    kind = MultiVectorEmbeddings if _holds_several_vectors(given) else Embeddings
    return kind.of(given, modality=modality, name=name or "own vectors")  # type: ignore[arg-type]


def _holds_several_vectors(given: Mapping[str, Any] | tuple[Any, Any]) -> bool:
    """Whether an id has several vectors: an array with two axes, or a list of vectors."""
    vectors = list(given.values()) if isinstance(given, Mapping) else given[1]
    if len(shape := getattr(vectors, "shape", ())) > 1 or len(vectors) == 0:
        return len(shape) == 3
    first = vectors[0]
    if hasattr(first, "shape"):
        return len(first.shape) == 2 and not hasattr(first, "toarray")  # a row of a sparse matrix has two axes
    return isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1


def system_of(
    given: AnySystem,
    similarity: Similarity | None = None,
    name: str | None = None,
    search_device: str | None = None,
    **encoding: Any,
) -> System:
    """Make a system from an encoder, from embeddings or from runs.

    Args:
        given: A `System`; an `Encoder`; two `Embeddings`, `SparseEmbeddings` or `MultiVectorEmbeddings`, as a
            pair or by role ("query", "document") or modality ("image", "text"); one `Run`, several, or runs by task. In
            a pair of equal modality the first is for the queries.
        similarity: "cosine", "dot" or "maxsim"; for runs it declares a similarity that is not recorded.
        name: The name in tables.
        search_device: A device of torch that searches vectors; None is the cores.
        **encoding: Options of `visir.encoders.encode`, for an encoder.

    Returns:
        The system.

    Raises:
        ConfigurationError: It is none of these, or options of encoding are given without an encoder.
    """
    if isinstance(given, Encoder):
        encoders = EncoderSystem(given, similarity, name, **encoding)
        encoders.search_device = search_device
        return encoders
    if encoding:
        option = sorted(encoding)[0]
        raise ConfigurationError(
            f"unknown option {option!r} ({nearest(option, OF_EVALUATION)})",
            hint="options of encoding (store, batch_size, workers) need an encoder to evaluate",
            code="unknown-option",
        )
    system = given if isinstance(given, System) else _ready(given, similarity, name)
    if isinstance(system, (VectorSystem, EncoderSystem)):
        system.search_device = search_device
    elif search_device is not None:
        raise ConfigurationError(
            f"search_device = {search_device!r}: {system.name} is not searched by vectors.",
            hint="leave it out",
            code="not-searched-vectors",
        )
    return system


def _ready(given: Any, similarity: Similarity | None, name: str | None) -> System:
    """The system of vectors or of runs that are there already."""
    members = _members(given)
    runs = [member for member in members if isinstance(member, Run)]
    vectors = [member for member in members if isinstance(member, Vectors)]
    if members and len(runs) == len(members):
        if isinstance(given, Mapping):
            for key, run in given.items():
                if isinstance(run, Run) and key != run.task:
                    raise ConfigurationError(
                        f"under {key!r} there is a run of the task {run.task!r}.", code="under-run-task"
                    )
        return RunSystem(by_task(runs), similarity, name)
    if members and len(vectors) == len(members):
        return VectorSystem(_pair(given, vectors), similarity, name)
    raise ConfigurationError(f"cannot evaluate {_named(given)}.", hint=FORMS, code="cannot-evaluate")


def _named(given: object) -> str:
    kind = type(given).__name__
    return f"a{'n' if kind[:1].lower() in 'aeiou' else ''} {kind}"


def _pair(given: object, vectors: list[Vectors]) -> dict[str, Vectors]:
    if isinstance(given, Mapping) and set(given) == {"query", "document"}:
        return {"query": given["query"], "document": given["document"]}
    by_modality = {str(member.modality): member for member in vectors}
    if isinstance(given, Mapping) and any(str(key) != str(member.modality) for key, member in given.items()):
        raise ConfigurationError(
            f"vectors under the keys {', '.join(map(repr, given))}.",
            hint='name them by role ("query", "document"), or by what they are vectors of ("image", "text")',
            code="vectors-under-keys",
        )
    if len(vectors) == 2 and len(by_modality) == 1:
        return {"query": vectors[0], "document": vectors[1]}
    if len(vectors) != 2 or len(by_modality) != 2:
        raise ConfigurationError(
            f"expected image and text embeddings, got {', '.join(by_modality)} ({len(vectors)} in all).",
            hint="give the pair (images, texts), or {'query': embeddings, 'document': embeddings}",
        )
    return {modality: by_modality[modality] for modality in sorted(by_modality)}


def _members(given: object) -> list[object]:
    if isinstance(given, (Run, Vectors)):
        return [given]
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, (list, tuple)) else []
