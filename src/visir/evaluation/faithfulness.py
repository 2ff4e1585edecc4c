"""Faithfulness: does a sparse model answer like the dense model from which it was made? (thesis RQ2.4)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
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
    """Correlate the per-query values of two models (thesis Table 3.5, there times 100)."""
    # The correlation is high if both models succeed and fail on the same queries, however good they are. R@k is
    # two-valued, so its ρ is the phi coefficient and stays below that of MRR@10, which also counts near misses.
    check_comparable([dense, sparse])
    rows = paired_rows(dense, sparse, task)
    by_measure = {}
    for name in measures:
        dense_values, sparse_values = dense.values(task, name), sparse.values(task, name)[rows]
        varies = dense_values.std() > 0 and sparse_values.std() > 0
        by_measure[name] = float(np.corrcoef(dense_values, sparse_values)[0, 1]) if varies else float("nan")
    return by_measure


def overlap_at(dense: Run, sparse: Run, k: int = 10) -> NDArray[np.float64]:
    """The share of each query's first `k` dense answers that are among the first `k` sparse answers (thesis Fig.
    3.2b)."""
    # The order within the k does not matter, nor whether an answer is right. The divisor is k, or the size of the
    # gallery if that is smaller.
    # Returns: (n,) shares in [0, 1], in the order of the queries of `dense`.
    if dense.gallery.fingerprint != sparse.gallery.fingerprint or dense.task != sparse.task:
        raise RunError(
            f"{dense.name} ({dense.task}, {dense.gallery.size:,} candidates) and {sparse.name} "
            f"({sparse.task}, {sparse.gallery.size:,}) did not search the same gallery.",
            code="candidates-not-search-same",
        )
    depth = min(k, dense.gallery.size)
    for run in (dense, sparse):
        if np.diff(run.offsets).min() < depth:
            raise RunError(
                f"run {run.name} has answers of fewer than {depth} documents.",
                hint="search deeper",
                code="run-answers-fewer-documents",
            )
    sparse_rows = pc.index_in(dense.queries, sparse.queries)
    if sparse_rows.null_count:
        missing = dense.queries.filter(pc.is_null(sparse_rows))[0].as_py()
        raise RunError(
            f"run {sparse.name} does not answer {counted(sparse_rows.null_count, 'queries')} of {dense.name}, "
            f"e.g. {missing!r}.",
            code="run-not-answer",
        )
    place = np.arange(depth)
    dense_top = dense.indices[dense.offsets[:-1, None] + place]
    sparse_top = sparse.indices[sparse.offsets[sparse_rows.to_numpy()][:, None] + place]
    number = pc.index_in(sparse.documents, dense.documents)  # one numbering of documents for both
    sparse_top = pc.fill_null(number, -1).to_numpy(zero_copy_only=False)[sparse_top]
    shares: NDArray[np.float64] = (dense_top[:, :, None] == sparse_top[:, None, :]).any(axis=2).sum(axis=1) / depth
    return shares
