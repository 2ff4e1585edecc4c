"""Runs as nested dictionaries, for ir_measures and for ranx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import MissingPackageError, RunError
from visir.records import Gallery, Qrels, Run
from visir.retrieval.formats.build import Order, check_whole_grades, run_of

if TYPE_CHECKING:
    import ranx


# Runs as tables: data frames of pandas, tables of Arrow, and whatever else has named columns.

_COLUMNS = {
    "query_id": ("query_id", "qid", "q_id", "query-id"),
    "document_id": ("document_id", "doc_id", "docno", "docid", "did", "corpus-id"),
    "rank": ("rank",),
    "score": ("score", "sim"),
}
"""Column names of visir, ir_measures (query_id, doc_id), ranx (q_id, doc_id), PyTerrier (qid, docno) and BEIR."""


def from_frame(
    frame: Any,
    task: str | None = None,
    gallery: Gallery | None = None,
    *,
    order: Order = "rank",
    name: str = "frame",
    depth: int | None = None,
    where: str = "the frame",
    provenance: dict[str, Any] | None = None,
) -> Run:
    """Make a run from a table with the columns of `Run.to_pandas`, of ir_measures, ranx, PyTerrier or BEIR.

    Args:
        frame: A data frame of pandas or polars, or an Arrow table; the column of ranks may be missing.
        task: The name of the task.
        gallery: The candidates; None where nobody knows them.
        order: What decides among equal scores: "rank" (where there is such a column), or "score" (the document id).
        name: The name of the system.
        depth: How many documents per query the search was to return; None is the length of the longest answer.
        where: Where the table comes from, for error messages.
        provenance: How the run was computed, as plain values for JSON.

    Raises:
        RunError: A column is missing, or the frame has another fault.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"qid": ["q", "q"], "docno": ["a", "b"], "score": [0.5, 0.75]})
        >>> from_frame(frame).answer("q")
        [('b', 0.75), ('a', 0.5)]
    """
    present = [str(column) for column in getattr(frame, "column_names", frame.columns)]
    chosen = {column: next((name for name in names if name in present), None) for column, names in _COLUMNS.items()}
    missing = [column for column, name in chosen.items() if name is None and column != "rank"]
    if missing:
        raise RunError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(present)}.",
            hint=f"name it so; known names: {', '.join(_COLUMNS[missing[0]])}",
            code="no-column",
        )
    rank = chosen["rank"]
    return run_of(
        name,
        task,
        gallery,
        [str(query) for query in _values(frame, chosen["query_id"])],
        [str(document) for document in _values(frame, chosen["document_id"])],
        _values(frame, chosen["score"]).astype(np.float64),
        None if rank is None else _values(frame, rank),
        order=order,
        depth=depth,
        where=lambda i: f"{where}, row {i + 1}",
        provenance=provenance,
    )


def _values(frame: Any, column: str | None) -> NDArray[Any]:
    return np.asarray(frame[column])


def from_dict(
    answers: Mapping[Any, Mapping[Any, float]],
    task: str | None = None,
    gallery: Gallery | None = None,
    *,
    name: str = "imported",
    depth: int | None = None,
    where: str = "dictionary",
) -> Run:
    """Make a run from {query: {document: score}}: by falling score, ties by document id.

    A query with an empty answer is left out. Measures treat both alike. Ids that are numbers become text.

    Args:
        answers: The scores of the documents of each query.
        task: The name of the task.
        gallery: The candidates; None where nobody knows them.
        name: The name of the system.
        depth: How many documents per query the search was to return; None is the length of the longest answer.
        where: Where the dictionary comes from, for error messages.

    Raises:
        RunError: There is no answer, or a document is outside a listed gallery.

    Example:
        >>> from_dict({"q": {"a": 0.5, "b": 0.75}}, "t2i", Gallery.of("image", ["a", "b"])).answer("q")
        [('b', 0.75), ('a', 0.5)]
    """
    rows = [(str(q), str(d), score) for q, answer in answers.items() for d, score in answer.items()]
    return run_of(
        name,
        task,
        gallery,
        [query for query, _, _ in rows],
        [document for _, document, _ in rows],
        _numbers(rows, where),
        None,
        order="score",
        depth=depth,
        where=lambda i: f"{where}, query {rows[i][0]!r}" if rows else where,
    )


def _numbers(rows: Sequence[tuple[str, str, object]], where: str) -> NDArray[np.float64]:
    try:
        return np.array([score for _, _, score in rows], np.float64)
    except (TypeError, ValueError):
        for query, document, score in rows:
            if not isinstance(score, int | float | np.number | None):
                raise RunError(
                    f"{where}, query {query!r}, document {document!r}: the score is {score!r}, not a number.",
                    hint="give {query: {document: score}}, e.g. {'q1': {'a.jpg': 0.5, 'b.jpg': 0.25}}",
                ) from None
        raise


def to_ir_measures(run: Run) -> dict[str, dict[str, float]]:
    """Return the run for `ir_measures.calc(measures, qrels, run)`: its order without ties. Qrels: `qrels_to_dict`."""
    return run.to_dict(keep_order=True)


def qrels_to_dict(qrels: Qrels) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} with whole grades, as ir_measures and ranx read them.

    Raises:
        CollectionError: A grade is not a whole number.
    """
    check_whole_grades(qrels)
    return {query: {d: int(grade) for d, grade in judged.items()} for query, judged in qrels.to_dict().items()}


def to_ranx(run: Run, *, keep_order: bool = True) -> ranx.Run:
    """Return the run as a `ranx.Run` of the same name; `keep_order` as in `Run.to_dict`."""
    return _ranx().Run(run.to_dict(keep_order=keep_order), name=run.name)


def from_ranx(run: Any, task: str | None = None, gallery: Gallery | None = None, *, name: str | None = None) -> Run:
    """Make a run from a `ranx.Run`: by falling score, ties by document id."""
    return from_dict(run.to_dict(), task, gallery, name=name or run.name or "ranx", where=f"ranx run {run.name}")


def _ranx() -> Any:
    try:
        import ranx
    except ImportError:
        raise MissingPackageError("ranx", extra="interop", purpose="A run for ranx") from None
    return ranx
