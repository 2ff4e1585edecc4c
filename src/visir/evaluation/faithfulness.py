"""Faithfulness: does a sparse model answer as the dense one does from which it was made? (thesis RQ2.4)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.evaluation.compare import check_comparable, paired_rows
from visir.records import Result, Run


def correlations(
    dense: Result,
    sparse: Result,
    *,
    task: str = "t2i",
    measures: Sequence[str] = ("hit@1", "hit@5", "mrr@10"),
) -> dict[str, float]:
    """Pearson's ρ of the per-query values of each measure, in [-1, 1] (thesis Table 3.5, there times 100).

    High when both models succeed and fail on the same queries, however good they are. NaN where one of them has the
    same value for every query: then there is nothing that could vary together. R@k is two-valued, so its ρ is the phi
    coefficient and stays below that of MRR@10, which sees near misses.

    Raises `ProtocolError` when the two were measured under different protocols (their similarity aside: dense vectors
    are compared by cosine, sparse ones by dot product) or over other queries.
    """
    check_comparable([dense, sparse], allow=("similarity",))
    rows = paired_rows(dense, sparse, task)
    by_measure = {}
    for name in measures:
        dense_values, sparse_values = dense.values(task, name), sparse.values(task, name)[rows]
        varies = dense_values.std() > 0 and sparse_values.std() > 0
        by_measure[name] = float(np.corrcoef(dense_values, sparse_values)[0, 1]) if varies else float("nan")
    return by_measure


def overlap_at(dense: Run, sparse: Run, k: int = 10) -> NDArray[np.float64]:
    """(n,) for each query of `dense`, the share of its first `k` answers that are among the first `k` of `sparse`.

    Fig. 3.2b. The order within the k does not matter, nor whether an answer is right. The divisor is k, or the size of
    the gallery where that is smaller.

    Raises `RunError` when the runs are over different galleries, or one is too short or lacks a query.
    """
    if dense.gallery.fingerprint != sparse.gallery.fingerprint or dense.task != sparse.task:
        raise RunError(
            f"{dense.name} ({dense.task}, {dense.gallery.size:,} candidates) and {sparse.name} "
            f"({sparse.task}, {sparse.gallery.size:,}) did not search the same gallery."
        )
    wanted = min(k, dense.gallery.size)
    for run in (dense, sparse):
        if np.diff(run.offsets).min() < wanted:
            raise RunError(f"run {run.name} has answers of fewer than {wanted} documents.", hint="search deeper")
    at = pc.index_in(dense.queries, sparse.queries)
    if at.null_count:
        missing = dense.queries.filter(pc.is_null(at))[0].as_py()
        raise RunError(
            f"run {sparse.name} does not answer {at.null_count:,} queries of {dense.name}, e.g. {missing!r}."
        )
    place = np.arange(wanted)
    dense_top = dense.indices[dense.offsets[:-1, None] + place]
    sparse_top = sparse.indices[sparse.offsets[at.to_numpy()][:, None] + place]
    number = pc.index_in(sparse.documents, dense.documents)  # one numbering of documents for both
    sparse_top = pc.fill_null(number, -1).to_numpy(zero_copy_only=False)[sparse_top]
    shares: NDArray[np.float64] = (dense_top[:, :, None] == sparse_top[:, None, :]).any(axis=2).sum(axis=1) / wanted
    return shares
