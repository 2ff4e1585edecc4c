"""From ranks to per-query values, and from those to one number per measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from visir.errors import ConfigurationError, ProtocolError, raise_faults
from visir.evaluation.measures.base import Positives
from visir.evaluation.measures.registry import DEFAULT_MEASURES, MEASURES, parse
from visir.evaluation.measures.typed import base_of
from visir.records import Ranks, Recall

RSUM_CUTOFFS = (1, 5, 10)


def measure(
    ranks: Ranks,
    names: Sequence[str] = DEFAULT_MEASURES,
    *,
    beyond_depth: bool = False,
    recall: Recall = "hit",
) -> pa.Table:
    """Measure each query.

    A query without any positive scores 0 (its rank is that of a positive that was not found), as in trec_eval.

    Args:
        ranks: The ranks of the positives.
        names: Measures with their cutoffs, as people type them.
        beyond_depth: A cutoff deeper than the run is refused by default: hit@10 of a run with five documents per query
            is hit@5 under a wrong name (so a published R@5 came to equal its R@10). True counts documents outside the
            run as not found, as other tools do silently. Measures without a cutoff (mrr, map, rprecision, …) always do.
        recall: The recall that "R@k" means.

    Returns:
        Column `query_id`, then one float64 column per measure, in the order of `names`, under the one
        form of its name ("R@5" is "hit@5"). Fractions are in [0, 1]; ranks
        count from 1.

    Raises:
        ConfigurationError: A name is unknown or faulty.
        ProtocolError: A cutoff is deeper than the run.

    Example:
        >>> ranks = Ranks(pa.array(["q"]), np.array([0, 1]), np.array([2]), np.ones(1, np.float32), None, 4)
        >>> table = measure(ranks, ["hit@1", "hit@5", "mrr"])
        >>> [table[name][0].as_py() for name in ("hit@1", "hit@5", "mrr")]
        [0.0, 1.0, 0.5]
    """
    requests = parse(names, recall)
    if ranks.depth is not None and not beyond_depth:
        raise_faults(
            ProtocolError,
            f"rankings are {ranks.depth} deep",
            [f"{request.name} looks deeper" for request in requests if (request.k or 0) > ranks.depth],
            hint="search deeper, name a smaller cutoff, or take what is missing as not found (beyond_depth=True)",
            code="rankings-deep",
        )
    by_grade: dict[float | None, Positives] = {}
    columns = {}
    for request in requests:
        if request.rel not in by_grade:
            by_grade[request.rel] = Positives(ranks if request.rel is None else ranks.of_grade(request.rel))
        cutoff = np.inf if request.k is None else float(request.k)
        columns[request.name] = request.measure.compute(by_grade[request.rel], cutoff)
    return pa.table({"query_id": ranks.queries, **columns})


def aggregate(per_query: pa.Table) -> dict[str, float]:
    """Aggregate the per-query values of a table made by `measure`.

    Args:
        per_query: Column `query_id`, then one column per measure. Columns that are not a registered measure
            (`dcg_cm@10`, imported values) are averaged.

    Returns:
        One number per measure: the mean over queries, the median for `median_rank`.
    """
    values = {name: per_query[name].to_numpy() for name in per_query.column_names if name != "query_id"}
    medians = {name for name, measure in MEASURES.items() if measure.aggregate == "median"}
    return {
        name: float(np.median(column) if base_of(name) in medians else np.mean(column))
        for name, column in values.items()
    }


def beyond_rank(per_query: pa.Table, last: int) -> dict[str, int]:
    """How many queries have a rank beyond the last that was looked at, for each measure that is a rank."""
    names = [name for name in per_query.column_names if base_of(name) in MEASURES]
    ranks = [name for name in names if MEASURES.get(base_of(name)).unit == "rank"]
    counts = {name: int((per_query[name].to_numpy() > last).sum()) for name in ranks}
    return {name: count for name, count in counts.items() if count}


def recalls_of(recall: Recall) -> list[str]:
    """The three measures that rsum adds."""
    return [f"{recall}@{k}" for k in RSUM_CUTOFFS]


def rsum(aggregates: Mapping[str, Mapping[str, float]], recall: Recall = "hit") -> dict[str, float]:
    """Sum the recall at 1, 5 and 10.

    The summed recall must be named, because papers sum different ones: thesis section 2.5 and chapter 4 sum hit@k, the
    brittleness paper's Table 3 sums capped_recall@k.

    Args:
        aggregates: {task: {measure: mean as a fraction}}, with `recall` at 1, 5 and 10.
        recall: "hit", "recall" or "capped_recall".

    Returns:
        In percentage points: by task (0–300) and, if there are "i2t" and "t2i", under "both" (0–600).

    Raises:
        ConfigurationError: A recall is missing.

    Example:
        >>> rsum({"t2i": {"hit@1": 0.25, "hit@5": 0.5, "hit@10": 1.0}})
        {'t2i': 175.0}
    """
    names = recalls_of(recall)
    missing = [f"{task}: {name}" for task, have in aggregates.items() for name in names if name not in have]
    raise_faults(
        ConfigurationError,
        f"rsum of {recall} needs {', '.join(names)}",
        missing,
        hint="measure these too",
        code="rsum-needs",
    )
    sums = {task: 100.0 * sum(have[name] for name in names) for task, have in aggregates.items()}
    if {"i2t", "t2i"} <= sums.keys():
        sums["both"] = sums["i2t"] + sums["t2i"]
    return sums
