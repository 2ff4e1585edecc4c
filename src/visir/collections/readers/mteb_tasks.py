"""Retrieval tasks of the package `mteb`, by name or as objects, as tasks of visir."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.collections.draft import TaskDraft
from visir.collections.readers.huggingface import dataset_table
from visir.collections.readers.task_reader import TaskPart, TaskReader, TaskTable, split_name
from visir.collections.sources import Format, Option
from visir.collections.tables import OnFault
from visir.errors import CollectionError, MissingPackageError, nearest
from visir.records import TaskFile, TaskSet
from visir.records.task import TASK_EXCLUDED

_MODALITIES = {"t": "text", "i": "image"}


def is_mteb_task(value: object) -> bool:
    """Whether an object is a task of mteb. It imports nothing."""
    modules = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    return "mteb" in modules and hasattr(value, "load_data") and hasattr(value, "metadata")


def read(path: Path, *, subset: str | None = None, only: str | None = None) -> TaskFile | TaskSet:
    """Read a retrieval task of mteb by its name."""
    try:
        import mteb
    except ImportError as fault:
        raise MissingPackageError("mteb", extra="mteb", purpose=f"the task mteb:{path}") from fault
    try:
        task = mteb.get_task(str(path), eval_splits=[only] if only else None, hf_subsets=[subset] if subset else None)
    except KeyError:
        names = [named.metadata.name for named in mteb.get_tasks()]
        raise CollectionError(
            f"mteb has no task {str(path)!r}.", hint=nearest(str(path), names), code="no-such-task"
        ) from None
    except ValueError as fault:
        raise CollectionError(f"mteb:{path}: {fault}", hint="leave subset= and split= out to take all") from fault
    return read_mteb_task(task)


def read_mteb_task(task: Any, *, subset: str | None = None, only: str | None = None) -> TaskFile | TaskSet:
    """Make a visir task of a retrieval task of mteb."""
    # Splits stay splits. A task with several subsets (languages) becomes a `TaskSet` with a task for each. Equal scores
    # are counted as mteb counts them (`ties="trec"`), and so is a query that stands among the documents: tasks that
    # mteb reads with `ignore_identical_ids` exclude the document with the id of the query; with `skip_first_result` the
    # first answer is left out.
    name = str(task.metadata.name)
    if not hasattr(task, "convert_v1_dataset_format_to_v2"):
        raise CollectionError(
            f"mteb:{name}: a task of the type {task.metadata.type}, not retrieval.",
            hint="visir.mteb_model(…) goes into mteb.evaluate for such tasks",
            code="not-a-retrieval-task",
        )
    others = sorted({str(modality) for modality in task.metadata.modalities} - {"text", "image"})
    if others:
        raise CollectionError(f"mteb:{name}: it holds {' and '.join(others)}; visir reads texts and images.")
    try:
        if not task.data_loaded:
            task.load_data()
        task.convert_v1_dataset_format_to_v2(num_proc=None)
    except Exception as fault:  # the hub, the network, the files: whatever it is
        raise CollectionError(
            f"mteb:{name}: its data cannot be loaded ({type(fault).__name__}: {str(fault)[:200]}).",
            hint=f"is there a network? the data set is {task.metadata.dataset.get('path')}",
        ) from fault
    wanted = None if only in (None, "all") else {split_name(name) for name in str(only).split("+")}
    chosen = {
        key: {split: part for split, part in splits.items() if wanted is None or split_name(str(split)) in wanted}
        for key, splits in task.dataset.items()
        if subset in (None, key)
    }
    parts = {str(key): _part(task, name, key, splits) for key, splits in chosen.items() if splits}
    if not parts:
        known = [*task.dataset, *dict.fromkeys(split for splits in task.dataset.values() for split in splits)]
        raise CollectionError(
            f"mteb:{name}: no subset {subset!r}, or no split {only!r}.",
            hint=f"there are {', '.join(map(str, known))}",
            code="no-such-subset",
        )
    source = f"mteb:{name}, revision {task.metadata.revision}"
    chosen_splits = None if only in (None, "all") else "+".join(split_name(part) for part in str(only).split("+"))
    if len(parts) == 1:
        return replace(next(iter(parts.values())), source=source).split(chosen_splits)
    return TaskSet(name, parts, source).split(chosen_splits)


def _part(task: Any, name: str, subset: str, splits: Mapping[str, Any]) -> TaskFile:
    sides = sides_of(task.metadata)
    where = f"mteb:{name}" + (f", {subset}" if subset != "default" else "")
    corpora = {str(getattr(parts["corpus"], "_fingerprint", "")): split for split, parts in splits.items()}

    def tables(part: str, letters: str, shared: bool) -> list[TaskTable]:
        return [
            item_table(parts[part], letters, f"{part} {split}", "" if shared else str(split))
            for split, parts in splits.items()
            if not shared or split in corpora.values()
        ]

    judged = {split: parts["relevant_docs"] for split, parts in splits.items()}
    ranked = {split: parts.get("top_ranked") for split, parts in splits.items()}
    parts: dict[TaskPart, list[TaskTable]] = {
        "queries": tables("queries", sides[0], False),
        "documents": tables("corpus", sides[1], len(corpora) == 1),
        "judgements": [_judgements(qrels, str(split)) for split, qrels in judged.items()],
        "candidates": [_pools(top, judged[split], str(split)) for split, top in ranked.items() if top],
    }
    record = TaskReader(TaskDraft(name, Path.cwd(), where)).read(parts, join_titles=True, drop=True).build()
    excluded = None
    if task.ignore_identical_ids:
        documents = set(record.documents.ids.to_pylist())
        same = [query for query in record.queries.ids.to_pylist() if query in documents]
        excluded = pa.table([same, same], schema=TASK_EXCLUDED) if same else None
    return replace(record, ties="trec", measures=(), excluded=excluded, skip_first=bool(task.skip_first_result))


def sides_of(metadata: Any) -> tuple[str, str]:
    """What queries and documents hold, by mteb's letters: ("t", "it") of the category "t2it"."""
    queries, two, documents = str(metadata.category or "").partition("2")
    return (queries, documents) if two else ("ti", "ti")


def item_table(data: Any, letters: str, name: str, split: str = "") -> TaskTable:
    """Queries or documents with the columns that the category of the task names: mteb shows a model only those."""
    wanted = {_MODALITIES[letter] for letter in letters if letter in _MODALITIES}
    columns = [column for column in data.column_names
               if column in {"id", "_id", *wanted} or ("text" in wanted and column in ("title", "instruction"))
               or (column in ("language", "category") and isinstance(_first(data, column), str))]  # fmt: skip
    table = dataset_table(data.select_columns(columns), name, None, split)
    if "instruction" not in columns and not (
        "text" in data.column_names and isinstance(_first(data.select_columns(["text"]), "text"), list)
    ):
        return table

    def rows(report: OnFault) -> Any:
        for place, row in table.rows(report):
            yield place, {**row, "text": _with_instruction(row)}

    return replace(table, rows=rows)


def _first(data: Any, column: str) -> Any:
    return data[0][column] if len(data) else None


def _with_instruction(row: Mapping[str, Any]) -> str:
    """The text of a query as mteb gives it to a model: its turns in one line, its instruction behind it."""
    text = row["text"]
    if isinstance(text, list):
        turns = [f"{turn['role']}: {turn['content']}" if isinstance(turn, dict) else str(turn) for turn in text]
        return "; ".join(turns)
    instruction = row.get("instruction")
    return text if instruction is None else f"{text} {instruction}"


def _judgements(qrels: Mapping[str, Mapping[str, Any]], split: str) -> TaskTable:
    def rows(report: OnFault) -> Any:
        for query, judged in qrels.items():
            for document, grade in judged.items():
                yield f"{query!r}", {"query-id": query, "corpus-id": document, "score": max(float(grade), 0.0)}

    return TaskTable("relevant_docs", rows, split)


def _pools(top: Mapping[str, list[str]], judged: Mapping[str, Any], split: str) -> TaskTable:
    def rows(report: OnFault) -> Any:
        for query, documents in top.items():
            if query in judged:
                yield f"{query!r}", {"query-id": query, "corpus-ids": list(dict.fromkeys(documents))}

    return TaskTable("top_ranked", rows, split)


FORMAT = Format(
    name="mteb",
    title="retrieval task of the package mteb",
    layout="mteb:NAME; mteb downloads the data",
    reference="Enevoldsen et al., MMTEB (ICLR 2025); Xiao et al., MIEB (2025)",
    sniff=lambda path: False,
    read=read,
    options=(
        Option("subset", "one of its subsets, such as a language (default: all)"),
        Option("only", "read this split alone (default: what split= says, if anything)"),
    ),
)
