"""What a random order would reach: the floor below every hit@k."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from visir.records import Qrels, Result, Run
from visir.reports.words import candidates_per_query


def chance_curve(positives: NDArray[np.int64], gallery: int, limit: int) -> NDArray[np.float64]:
    """(limit,) hit@1 … hit@limit expected of a random order: the mean over queries of 1 − C(N − m, k) / C(N, k)."""
    # `positives` are the m of each query, `gallery` is N. For one positive it is k / N.
    counts, shares = np.unique(np.minimum(positives, gallery), return_counts=True)
    ks = np.arange(limit)
    missed = np.zeros(limit)
    for m, share in zip(counts, shares, strict=True):
        # No positive among the first k: a product of (N − m − i) / (N − i) over i < k.
        factors = np.maximum(gallery - m - ks, 0) / np.maximum(gallery - ks, 1)
        missed += share * np.cumprod(factors)
    return np.asarray(1 - missed / shares.sum(), np.float64)


def expected_by_chance(
    result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels]
) -> dict[str, NDArray[np.float64]]:
    """Task -> (N,) hit@1 … hit@N expected of a random order of N candidates, for the tasks with judgements."""
    # Under folds N is the size of one fold's gallery: a query meets only its own fold. Where each query has a pool of
    # its own, N is the size of the pools; tasks with pools of several sizes are left out.
    expected: dict[str, NDArray[np.float64]] = {}
    for task, run in runs.items():
        if task in qrels and (run.gallery.is_known or candidates_per_query(result.protocol, task) is not None):
            positives = qrels[task].select(run.queries).positives
            pooled = candidates_per_query(result.protocol, task)
            size = max(1, round(run.gallery.size / result.protocol.folds)) if pooled is None else pooled
            if size and (positives > 0).any():
                expected[task] = chance_curve(positives[positives > 0], size, size)
    return expected
