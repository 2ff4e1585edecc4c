"""Runs as pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visir.errors import RunError, nearest
from visir.records import Gallery, Run
from visir.retrieval.formats.build import Order, run_of

if TYPE_CHECKING:
    import pandas as pd

_ALSO = {"query_id": ("qid", "q_id"), "document_id": ("doc_id", "docno", "docid"), "rank": (), "score": ()}
"""Column names of ir_measures (query_id, doc_id) and PyTerrier (qid, docno)."""


def to_pandas(run: Run) -> pd.DataFrame:
    """Return a frame with columns query_id, document_id, rank (from 1) and score."""
    return run.to_arrow().to_pandas()


def from_pandas(
    frame: pd.DataFrame,
    task: str,
    gallery: Gallery,
    *,
    order: Order = "rank",
    name: str = "frame",
    depth: int | None = None,
) -> Run:
    """Make a run from a frame with the columns of `to_pandas`, of ir_measures or of PyTerrier.

    Args:
        frame: The frame; the column of ranks may be missing.
        task: The name of the task.
        gallery: The candidates.
        order: "rank" (or by score if there are no ranks), or "score".
        name: The name of the system.
        depth: How many documents per query the search was to return; None is the length of the longest answer.

    Raises:
        RunError: A column is missing, or the frame has another fault.
    """
    columns = {}
    for column_name, others in _ALSO.items():
        present = [column for column in (column_name, *others) if column in frame.columns]
        if present:
            columns[column_name] = frame[present[0]].to_numpy()
        elif column_name != "rank":
            hint = nearest(column_name, map(str, frame.columns))
            raise RunError(f"the frame has no column {column_name!r}.", hint=hint)
    return run_of(
        name,
        task,
        gallery,
        [str(query_id) for query_id in columns["query_id"]],
        [str(document_id) for document_id in columns["document_id"]],
        np.asarray(columns["score"], np.float64),
        columns.get("rank"),
        order=order,
        depth=depth,
        where=lambda i: f"frame, row {i}",
    )
