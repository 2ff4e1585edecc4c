"""Runs as pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visir.errors import RunError, nearest
from visir.records import Gallery, Run
from visir.search.formats.build import Order, run_of

if TYPE_CHECKING:
    import pandas as pd

_ALSO = {"query_id": ("qid", "q_id"), "document_id": ("doc_id", "docno", "docid"), "rank": (), "score": ()}
"""Column names of ir_measures (query_id, doc_id) and PyTerrier (qid, docno)."""


def to_pandas(run: Run) -> pd.DataFrame:
    """Columns query_id, document_id, rank (from 1), score."""
    return run.to_table().to_pandas()


def from_pandas(
    frame: pd.DataFrame,
    task: str,
    gallery: Gallery,
    *,
    order: Order = "rank",
    name: str = "frame",
    depth: int | None = None,
) -> Run:
    """From a frame with these columns, or those of ir_measures or PyTerrier. Without ranks the scores decide."""
    columns = {}
    for wanted, others in _ALSO.items():
        present = [column for column in (wanted, *others) if column in frame.columns]
        if present:
            columns[wanted] = frame[present[0]].to_numpy()
        elif wanted != "rank":
            raise RunError(f"the frame has no column {wanted!r}.", hint=nearest(wanted, map(str, frame.columns)))
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
