"""Data sets of the package `ir_datasets`, by name, as tasks: `ir_datasets:beir/nfcorpus/test`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from visir.collections.draft import TaskDraft
from visir.collections.readers.task_reader import TaskPart, TaskReader, TaskTable
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import OnFault
from visir.errors import CollectionError, MissingPackageError, nearest
from visir.records import TaskFile

_PARTS = ("queries", "docs", "qrels")


def read(path: Path, *, pools: str = "no") -> TaskFile:
    """Read a data set of ir_datasets by its name. Equal scores are counted as trec_eval does (`ties="trec"`)."""
    name = path.as_posix()
    try:
        import ir_datasets
    except ImportError as fault:
        raise MissingPackageError("ir_datasets", extra="interop", purpose=f"the task ir_datasets:{name}") from fault
    known = [str(other) for other in ir_datasets.registry]
    try:
        data: Any = ir_datasets.load(name)
    except KeyError:
        raise CollectionError(f"ir_datasets has no {name!r}.", hint=nearest(name, known), code="no-such-task") from None
    lacking = [part for part in _PARTS if not data.has(part)]
    if lacking:
        below = [other for other in known if other.startswith(f"{name}/")]
        raise CollectionError(
            f"ir_datasets:{name}: no task, it has no {' and no '.join(lacking)}.",
            hint=f"name one of: {', '.join(below[:8])}" if below else "name one with queries, documents and judgements",
            code="no-whole-task",
        )
    parts: dict[TaskPart, list[TaskTable]] = {
        "queries": [_table("queries", data.queries_iter, lambda query: {"id": query.query_id, "text": _text(query)})],
        "documents": [_table("docs", data.docs_iter, lambda doc: {"id": doc.doc_id, "text": _text(doc)})],
        "judgements": [_table("qrels", data.qrels_iter, _judgement)],
        "candidates": [],
    }
    if pools == "yes":
        if not data.has("scoreddocs"):
            raise CollectionError(
                f"ir_datasets:{name}: it has no first stage.", hint="leave pools out", code="no-pools"
            )
        parts["candidates"] = [TaskTable("scoreddocs", lambda report: _pools(data))]
    try:
        return replace(
            TaskReader(TaskDraft(name, Path.cwd(), f"ir_datasets:{name}"))
            .read(parts, join_titles=False, drop=True)
            .build(),
            ties="trec",
            measures=(),
        )
    except CollectionError:
        raise
    except Exception as fault:  # the network, licences to agree to, the files: whatever it is
        raise CollectionError(
            f"ir_datasets:{name}: its data cannot be loaded ({type(fault).__name__}: {str(fault)[:200]}).",
            hint=f"is there a network? python -m ir_datasets export {name} queries says what it needs",
        ) from fault


def _table(name: str, rows_of: Callable[[], Any], columns: Callable[[Any], dict[str, Any]]) -> TaskTable:
    def rows(report: OnFault) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, row in enumerate(rows_of(), 1):
            yield f"row {number}", columns(row)

    return TaskTable(name, rows)


def _text(row: Any) -> str:
    """The text that ir_datasets shows of a query or document by default: of several fields all that are its text."""
    return str(row.default_text())


def _judgement(qrel: Any) -> dict[str, Any]:
    return {"query-id": qrel.query_id, "corpus-id": qrel.doc_id, "score": max(float(qrel.relevance), 0.0)}


def _pools(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    pools: dict[str, dict[str, None]] = {}
    for scored in data.scoreddocs_iter():
        pools.setdefault(scored.query_id, {})[scored.doc_id] = None
    for query, documents in pools.items():
        yield f"{query!r}", {"query-id": query, "corpus-ids": list(documents)}


FORMAT = Format(
    name="ir_datasets",
    title="task of the package ir_datasets",
    layout="ir_datasets:NAME, e.g. ir_datasets:beir/nfcorpus/test; ir_datasets downloads the data",
    reference="MacAvaney et al., Simplified Data Wrangling with ir_datasets (SIGIR 2021)",
    sniff=lambda path: False,
    read=read,
    options=(
        Option("pools", "search only what its first stage found for each query: yes, no", "no", one_of("yes", "no")),
    ),
)
