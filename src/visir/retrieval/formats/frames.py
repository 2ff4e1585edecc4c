"""Runs as tables: data frames of pandas, tables of Arrow, and whatever else has named columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records import Gallery, Run
from visir.retrieval.formats.build import Order, run_of

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
