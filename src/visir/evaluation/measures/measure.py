"""From ranks to per-query values, and from those to one number per measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

import visir.stats as stats
from visir.display import Tabular
from visir.errors import ConfigurationError, ProtocolError, VisirError, raise_faults
from visir.evaluation.measures.registry import (
    DEFAULT_MEASURES,
    MEASURES,
    Measure,
    Named,
    Positives,
    base_of,
    parse,
    read_measure,
)
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


def bounds_of(measure: str) -> tuple[float, float]:
    """Between which values a measure lies for every query of a task: fractions from 0 to 1, ranks from 1."""
    if measure == "rsum":
        return 0.0, 100.0 * len(RSUM_CUTOFFS)
    base = base_of(measure)
    unit = MEASURES.get(base).unit if base in MEASURES else ""
    return {"fraction": (0.0, 1.0), "rank": (1.0, np.inf)}.get(unit, (-np.inf, np.inf))


def measure_estimate(measure: str, values: ArrayLike, clusters: ArrayLike | None = None) -> stats.Estimate:
    """What is printed of a measure, with its 95 % interval: of its median where that is printed, else of its mean."""
    base = base_of(measure)
    is_median = base in MEASURES and MEASURES.get(base).aggregate == "median"
    return stats.estimate(values, clusters, kind="median" if is_median else "auto", bounds=bounds_of(measure))


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


# All measures in a list, as people type them.


@dataclass(frozen=True, repr=False)
class MeasureList(Tabular):
    """The measures, with their formulas and the names that people type."""

    measures: dict[str, Measure]  # the measures by name

    def __len__(self) -> int:
        return len(self.measures)

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.measures.values())

    def __getitem__(self, typed: str) -> Measure:
        """The measure that a name means: "nDCG@10", "AP"."""
        named = read_measure(typed)
        if not isinstance(named, Named):  # without the cutoff that it needs
            named = read_measure(f"{typed}@10")
        if not isinstance(named, Named):
            raise VisirError(str(read_measure(typed)), hint="visir.measures() lists them")
        return named.measure

    def __repr__(self) -> str:
        names = ", ".join(measure.pattern for measure in self.measures.values())
        return f"MeasureList({names})"


def measures() -> MeasureList:
    """List the measures: what each is called, what it computes, and what else its name is used for.

    Wherever measures are named, `visir.evaluate(…, measures=["R@1", "nDCG@10"])`, `evaluation["t2i R@1"]`,
    `visir.compare(…, measures=…)`, `visir evaluate --measure`, names are read as people type them:

    - **R@k** is the recall that the protocol declares: `hit@k` in image–text retrieval ("is one of the positives among
      the first k"), `recall@k` for judgements alone. Every other name has one meaning; `recall@k` is the share of the
      positives.
    - Upper and lower case, "-", "_" and spaces do not matter: `nDCG@10`, `ndcg@10`; `hit_rate@5`, `HitRate@5`.
    - Names of ir_measures, ranx and trec_eval are known: `Success@5`, `RR`, `AP`, `P@5`, `P_5`, `ndcg_cut_10`,
      `recip_rank`, and measures of `ir_measures` themselves.
    - `rel=` is the lowest grade that counts as right: `AP(rel=2)@10`.
    - `rsum` is R@1 + R@5 + R@10 in percentage points.

    Returns:
        The list, which prints itself as a table; `measures()["nDCG"]` is one of them.

    Example:
        >>> import visir
        >>> visir.measures()["Success@5"].name, visir.measures()["AP"].aliases[0]
        ('hit', 'AP')
        >>> print(visir.measures()["R@5"].differs)
        recall@k, the share of the positives; the `hits@k` of ranx counts them

    A measure of your own is a function of the ranks of the positives; `R@k` and the others are written in the same way:

        from visir.evaluation.measures import MEASURES, Measure

        def late(positives, k):
            return positives.sum(positives.rank > k)

        MEASURES.add("late", Measure("late", "Late positives", "|positives behind rank k|", "How many come late?",
                                     "", "own", late, best="low", unit="gain"))
        visir.evaluate(collection, model, measures=["late@10"])
    """
    return MeasureList(dict(MEASURES.items()))
