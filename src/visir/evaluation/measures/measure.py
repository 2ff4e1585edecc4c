"""From ranks to per-query values, and from those to one number per measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from visir.errors import ConfigurationError, ProtocolError, raise_faults
from visir.evaluation.measures.base import Positives
from visir.evaluation.measures.registry import DEFAULT_MEASURES, MEASURES, parse
from visir.records import Ranks, Recall

RSUM_CUTOFFS = (1, 5, 10)


def measure(ranks: Ranks, names: Sequence[str] = DEFAULT_MEASURES, *, beyond_depth: bool = False) -> pa.Table:
    """Per-query values: column `query_id`, then one float64 column per name, in the given order.

    Fractions are in [0, 1]; ranks count from 1. A query without any positive scores 0 (and its rank is that of a
    positive not found), as trec_eval has it.

    A cutoff deeper than the run reaches is refused (`ProtocolError`): hit@10 of a run that holds five documents per
    query is hit@5 under a wrong name (that is how a published R@5 came to equal its R@10). `beyond_depth=True` counts
    what is not in the run as not found, as other tools do without saying so. Measures without a cutoff (mrr, map,
    rprecision, …) always do so.
    """
    wanted = parse(names)
    if ranks.depth is not None and not beyond_depth:
        raise_faults(
            ProtocolError,
            f"rankings are {ranks.depth} deep",
            [f"{request.name} looks deeper" for request in wanted if (request.k or 0) > ranks.depth],
            hint="search deeper, name a smaller cutoff, or take what is missing as not found (beyond_depth=True)",
        )
    positives = Positives(ranks)
    columns = {
        request.name: request.measure.compute(positives, np.inf if request.k is None else float(request.k))
        for request in wanted
    }
    return pa.table({"query_id": ranks.queries, **columns})


def aggregate(per_query: pa.Table) -> dict[str, float]:
    """One number per measure of a table made by `measure`: the mean over queries, the median for `median_rank`.

    Columns that are no registered measure (`dcg_cm@10`, imported values) are averaged.
    """
    values = {name: per_query[name].to_numpy() for name in per_query.column_names if name != "query_id"}
    medians = {name for name, measure in MEASURES.items() if measure.aggregate == "median"}
    return {name: float(np.median(column) if name in medians else np.mean(column)) for name, column in values.items()}


def rsum(aggregates: Mapping[str, Mapping[str, float]], recall: Recall = "hit") -> dict[str, float]:
    """The sum of recall: per task (0–300) and, when both are there, under "both" (0–600); in percentage points.

    `aggregates` is {task: {measure: mean as a fraction}} and must hold `recall` at 1, 5 and 10. Which recall is
    summed must be named, because papers sum different ones: thesis section 2.5 and chapter 4 sum hit@k, the brittleness
    paper's Table 3 sums capped_recall@k.
    """
    names = [f"{recall}@{k}" for k in RSUM_CUTOFFS]
    missing = [f"{task}: {name}" for task, have in aggregates.items() for name in names if name not in have]
    raise_faults(ConfigurationError, f"rsum of {recall} needs {', '.join(names)}", missing, hint="measure these too")
    sums = {task: 100.0 * sum(have[name] for name in names) for task, have in aggregates.items()}
    if {"i2t", "t2i"} <= sums.keys():
        sums["both"] = sums["i2t"] + sums["t2i"]
    return sums
