"""From ranks to a `Result` (per-query values, aggregates, rsum, versions), for every kind of search."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import numpy as np
import pyarrow as pa

from visir.display import counted
from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.folds import joined
from visir.evaluation.joined_queries import join_queries
from visir.evaluation.measures import DEFAULT_MEASURES, aggregate, base_of, measure, parse, rsum
from visir.evaluation.measures.measure import beyond_rank, recalls_of
from visir.evaluation.typical_measures import CHOICES
from visir.records import TASKS, Protocol, Ranks, Recall, Result, join_labels

MODELLING = ("torch", "transformers", "open_clip", "sentence_transformers", "onnxruntime")
"""Packages that are listed among the versions only if they were imported."""


def score(
    system: str,
    ranks: Mapping[str, Sequence[Ranks]],
    protocol: Protocol,
    *,
    measures: Sequence[str] | None = None,
    further: Mapping[str, pa.Table] | None = None,
    labels: Mapping[str, Sequence[pa.Table | None]] | None = None,
    timing: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
    beyond_depth: bool = False,
) -> Result:
    """Measure the ranks of each task under a protocol.

    With folds, the aggregate of a measure is the mean of the folds' aggregates, as in the 5-fold protocol of COCO (for
    `median_rank` the mean of the medians). rsum is added if the protocol's recall is measured at 1, 5 and 10. Where the
    default measures lack one of these, a note says so.

    Args:
        system: The name of the system.
        ranks: For each task one `Ranks` per fold.
        protocol: The protocol that the result carries.
        measures: Names, as people type them; "rsum" stands for its three recalls. None takes the default ones, as far
            as the rankings are deep enough; a note lists those left out. A named measure that looks deeper is refused.
        further: For each task a table with `query_id` and more per-query columns (`dcg_cm@10`), joined by id.
        labels: For each task tables with labels of its queries, joined by id; measures of items need them.
        timing: Seconds by stage.
        notes: Notes for the reader.
        beyond_depth: Whether a measure may look deeper than the rankings reach; what is deeper counts as not found.

    Returns:
        The result.

    Raises:
        ConfigurationError: There are no ranks, or `further` lacks a query.
        ProtocolError: A named measure looks deeper than the rankings reach.

    Example:
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> from visir.records import Protocol, Ranks
        >>> grades = np.ones(2, np.float32)
        >>> ranks = Ranks(pa.array(["q1", "q2"]), np.array([0, 1, 2]), np.array([1, 2]), grades, None, 4)
        >>> protocol = Protocol(collection="example", collection_fingerprint="stated", split="test")
        >>> score("by hand", {"t2i": [ranks]}, protocol, measures=["hit@1", "mrr"]).aggregates
        {'t2i': {'hit@1': 0.5, 'mrr': 0.75}}
    """
    if not ranks:
        raise ConfigurationError("nothing to measure: no task was searched.", hint="give at least one run")
    names, further_notes = _names(measures, ranks, protocol)
    recalls = recalls_of(protocol.recall)
    per_query: dict[str, pa.Table] = {}
    beyond: dict[str, dict[str, int]] = {}
    aggregates: dict[str, dict[str, float]] = {}
    for task, parts in ranks.items():
        together = joined(list(parts))
        table = measure(together, names, beyond_depth=beyond_depth)
        if together.depth is not None and (counts := beyond_rank(table, together.last)):
            beyond[task] = counts
            further_notes.append(_not_known(task, counts, together))
        further_notes += _short_of_all(task, names, together)
        if further and task in further:
            table = _join(table, further[task])
        per_query[task] = table
    of_queries = {
        name: joined_labels
        for name, tables in (labels or {}).items()
        if (joined_labels := join_labels(per_query[name]["query_id"], *tables)) is not None
    }
    per_query = join_queries(per_query, of_queries, names)
    for task, parts in ranks.items():
        table = per_query[task]
        ends = np.cumsum([0, *(len(part) for part in parts)])
        folds = [aggregate(table.slice(start, end - start)) for start, end in pairwise(ends)]
        aggregates[task] = {name: float(np.mean([fold[name] for fold in folds])) for name in folds[0]}
    if set(recalls) <= set(names):
        for key, value in rsum(aggregates, protocol.recall).items():
            aggregates.setdefault(key, {})["rsum"] = value
    elif (
        measures is None and CHOICES[0] not in names and not per_query.keys().isdisjoint(TASKS)
    ):  # rsum is defined for these tasks only
        missing = ", ".join(name for name in recalls if name not in names)
        further_notes.append(f"no rsum: it needs {missing}")
    every_note = (*notes, *further_notes)
    return Result(
        system,
        protocol,
        per_query,
        aggregates,
        versions(),
        dict(timing or {}),
        every_note,
        labels=of_queries,
        beyond=beyond,
    )


def versions() -> dict[str, str]:
    """The versions of visir, Python and the numerical packages (of modelling packages only the imported ones)."""
    names = ["visir", "numpy", "pyarrow", "numba", *(name for name in MODELLING if name in sys.modules)]
    by_package = {"python": platform.python_version()}
    for name in names:
        try:
            by_package[name] = version("open_clip_torch" if name == "open_clip" else name)
        except PackageNotFoundError:
            by_package[name] = "unknown"
    return by_package


def canonical(measures: Sequence[str], recall: Recall) -> list[str]:
    """The one form of each name, without repetitions."""
    typed = [str(name) for name in measures]
    sums = recalls_of(recall) if any(name.casefold() == "rsum" for name in typed) else []
    names = [name for name in typed if name.casefold() != "rsum"]
    read = [named.name for named in parse(names, recall)] if names or not sums else []
    return list(dict.fromkeys((*read, *sums)))


def _names(
    measures: Sequence[str] | None, ranks: Mapping[str, Sequence[Ranks]], protocol: Protocol
) -> tuple[list[str], list[str]]:
    if measures is not None:
        names = canonical(measures, protocol.recall)
        if protocol.ties != "id" and (graded := [name for name in names if "(rel=" in name]):
            raise ConfigurationError(
                f"{', '.join(graded)}: with ties={protocol.ties!r} every grade above 0 is a positive.",
                hint="leave rel out, or take ties='id'",
            )
        return names, []
    depths = [part.depth for parts in ranks.values() for part in parts if part.depth is not None]
    if not depths:
        return list(DEFAULT_MEASURES), []
    reached = [
        measure_request.name
        for measure_request in parse(DEFAULT_MEASURES)
        if measure_request.k is None or measure_request.k <= min(depths)
    ]
    left_out = [name for name in DEFAULT_MEASURES if name not in reached]
    notes = [f"rankings are {min(depths)} deep: measures without a cutoff count what lies deeper as not found"]
    if left_out:
        notes.append(f"rankings are {min(depths)} deep, so these were left out: {', '.join(left_out)}")
    return reached, notes


def _not_known(task: str, counts: Mapping[str, int], ranks: Ranks) -> str:
    by_count: dict[int, list[str]] = {}
    for name, count in counts.items():
        by_count.setdefault(count, []).append(name)
    parts = [
        f"{' and '.join(names)} of {task}: {count:,} of {counted(len(ranks), 'queries', 'have')} no right answer among "
        f"the first {ranks.last:,}; the rank is not known, and counts as {ranks.last + 1:,}"
        for count, names in by_count.items()
    ]
    return "; ".join(parts)


def _short_of_all(task: str, names: Sequence[str], ranks: Ranks) -> list[str]:
    """A note where as many answers are looked at as there are right ones, and a run has fewer."""
    looking = [name for name in names if base_of(name) in ("rprecision", "map@r")]
    short = 0 if ranks.depth is None else int((ranks.positives > ranks.last).sum())
    if not looking or not short:
        return []
    return [
        f"{' and '.join(looking)} of {task}: {counted(short, 'queries', 'have')} more right answers than the first "
        f"{ranks.last:,} can hold; what lies deeper counts as not found"
    ]


def _join(table: pa.Table, further: pa.Table) -> pa.Table:
    rows = pa.compute.index_in(table["query_id"].combine_chunks(), further["query_id"].combine_chunks())
    raise_faults(
        ConfigurationError,
        "further per-query values",
        [f"{rows.null_count} of {len(rows)} queries have none"] if rows.null_count else [],
        hint="give a value for every query",
    )
    for name in further.column_names:
        if name != "query_id":
            table = table.append_column(name, further[name].take(rows).cast(pa.float64()))
    return table
