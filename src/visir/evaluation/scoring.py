"""From ranks to a `Result` (per-query values, aggregates, rsum, versions), for every kind of search."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import numpy as np
import pyarrow as pa

from visir.display import counted
from visir.errors import ConfigurationError, raise_faults
from visir.evaluation.folds import Ranked, joined, name_codes
from visir.evaluation.measures import (
    DEFAULT_MEASURES,
    MEASURES,
    aggregate,
    base_of,
    beyond_rank,
    measure,
    parse,
    read_measure,
    recalls_of,
    rsum,
)
from visir.fingerprint import hash_columns
from visir.records import (
    GROUP,
    TASKS,
    Items,
    Protocol,
    Ranks,
    Recall,
    Result,
    Run,
    Task,
    Ties,
    gallery_line,
    join_labels,
)

# Which measures of a result are shown when nobody names some.

CHOICES = ("all_first", "item_score", "group_score")
"""The measures of choice tasks."""


def typical_measures(result: Result) -> list[str]:
    """The measures of choices, or the recall at 1, 5 and 10 that the protocol names, if measured; else every mean."""
    if choices := [name for name in CHOICES if name in result.measures]:
        return choices
    recalls = [name for name in recalls_of(result.protocol.recall) if name in result.measures]
    return recalls or [name for name in result.measures if base_of(name) != "median_rank"]


# Tasks whose first answers do not count: a picture that searches a gallery in which it stands itself.


def skips_first(folds: Mapping[str, Sequence[Task]]) -> bool:
    """Whether a task leaves first answers out; then a search has to go one deeper."""
    return any(tasks[0].skip_first for tasks in folds.values())


def without_first_answers(ranked: Ranked, folds: Mapping[str, Sequence[Task]]) -> Ranked:
    """Leave the first answer of every query out, in the tasks that say so (`Task.skip_first`)."""
    # A positive that stood first is not found: mteb reads such tasks so (`skip_first_result`).
    ranks, runs = dict(ranked[0]), dict(ranked[1])
    for name, tasks in folds.items():
        if tasks[0].skip_first:
            ranks[name] = [_moved(part) for part in ranks[name]]
            runs[name] = _shortened(runs[name])
    return ranks, runs


def _moved(ranks: Ranks) -> Ranks:
    moved = np.maximum(ranks.ranks - 1, 0)
    row = np.repeat(np.arange(len(ranks)), ranks.positives)
    order = np.lexsort((np.where(moved == 0, np.iinfo(np.int64).max, moved), row))
    depth = None if ranks.depth is None else max(ranks.depth - 1, 1)
    return replace(ranks, ranks=moved[order], grades=ranks.grades[order], depth=depth)


def _shortened(run: Run) -> Run:
    lengths = np.diff(run.offsets)
    left = np.ones(len(run.indices), bool)
    left[run.offsets[:-1][lengths > 0]] = False
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths - 1, 0))]).astype(np.int64)
    return replace(
        run, offsets=offsets, indices=run.indices[left], scores=run.scores[left], depth=max(run.depth - 1, 1)
    )


# The lines of the protocol on what was searched: the candidates and the queries of a task.


def candidates_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the candidates of a task."""
    first = tasks[0]
    if first.skip_first:
        others = [replace(task, skip_first=False) for task in tasks]
        return f"{candidates_line(others)} · without the first answer of each query"
    if first.excluded is not None:
        excluded = first.excluded
        line = f"without {len(excluded.documents):,} excluded documents of single queries"
        return f"{candidates_line([replace(first, excluded=None)])} · {line} · {excluded.fingerprint[:12]}"
    if first.pools is not None:
        documents = f"{len(first.documents):,} {first.documents.title}{_kinds(first.documents, None)}"
        return f"{first.pools} · {documents} · {first.pools.fingerprint[:12]}"
    if len(tasks) == 1:
        size, _, rest = gallery_line(first.gallery).partition(" · ")
        return " · ".join(filter(None, [size + _kinds(first.documents, first.gallery.ids), rest]))
    together = hash_columns([pa.array([task.gallery.fingerprint for task in tasks])], sort=False)
    return f"{len(tasks)} × {gallery_line(first.gallery).rsplit(' · ', 1)[0]} · {together[:12]}"


def queries_line(tasks: Sequence[Task]) -> str:
    """The protocol's line on the queries of a task."""
    parts = [task.judgements() for task in tasks]
    count = int(np.sum([len(part) for part in parts]))
    fingerprint = hash_columns([pa.concat_arrays([part.queries for part in parts])])
    kinds = _kinds(tasks[0].queries, parts[0].queries) if len(tasks) == 1 else ""
    return f"{count:,} {tasks[0].queries.title}{kinds} · {fingerprint[:12]}"


def _kinds(items: Items, ids: pa.StringArray | None) -> str:
    """How many of these items are texts, images and both, where they do not all hold the same."""
    if not items.is_mixed:
        return ""
    some = items if ids is None or len(ids) == len(items) else items.select(ids)
    return f" ({some.holding})"


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
    """Measure the ranks of each task, one `Ranks` for each fold, under a protocol."""
    # With folds, the aggregate of a measure is the mean of the folds' aggregates, as in the 5-fold protocol of COCO
    # (for `median_rank` the mean of the medians). rsum is added if the protocol's recall is measured at 1, 5 and 10.
    # Where the default measures lack one of these, a note says so. Of the default measures those are taken that look no
    # deeper than the rankings; a named one that does is refused, but with `beyond_depth`: then what is deeper counts as
    # not found. further, labels: By task tables that are joined by query_id: more columns (`dcg_cm@10`), and labels,
    # which measures of items need.
    if not ranks:
        raise ConfigurationError("nothing to measure: no task was searched.", hint="give at least one run")
    names, further_notes = _names(measures, ranks, protocol)
    recalls = recalls_of(protocol.recall)
    per_query: dict[str, pa.Table] = {}
    beyond: dict[str, dict[str, int]] = {}
    aggregates: dict[str, dict[str, float]] = {}
    for task, parts in ranks.items():
        together = parts[0] if len(parts) == 1 else joined(list(parts))
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


_COMMAS = re.compile(r",(?![^()]*\))")


def typed_measures(measures: Sequence[str] | str | None) -> Sequence[str] | None:
    """The names of measures as a list, "mteb" spelt out; a text has them by commas: "R@1, AP(rel=2)@10"."""
    names = [name.strip() for name in _COMMAS.split(measures)] if isinstance(measures, str) else measures
    if not isinstance(names, Sequence) or "mteb" not in names:
        return names
    from visir.evaluation.mteb import MTEB_MEASURES

    return list(dict.fromkeys([*(name for name in names if name != "mteb"), *MTEB_MEASURES]))


def faults_of_measures(measures: Sequence[str] | None) -> list[str]:
    """What is wrong with the names of measures."""
    if measures is None:
        return []
    if not isinstance(measures, Iterable):
        return [f"measures={measures!r}: names of measures are expected, e.g. ['nDCG@10', 'AP']"]
    typed = [str(name) for name in measures]
    of_ranks = [name for name in typed if name.casefold() != "rsum" and not name.startswith("dcg_cm")]
    read = [read_measure(name) for name in of_ranks]
    faults = [fault for fault in read if isinstance(fault, str)]
    faults += [
        f"{name!r}: write dcg_cm@p with a whole number p from 1, dcg_cm@10"
        for name in typed
        if name.startswith("dcg_cm") and not re.fullmatch(r"dcg_cm@[1-9]\d*", name)
    ]
    faults += [f"{name!r} is named twice" for name in dict.fromkeys(typed) if typed.count(name) > 1]
    return faults if typed else ["no measure is named"]


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


# Measures of items of several queries: an item is right when all of its queries are.


def join_queries(
    per_query: Mapping[str, pa.Table], labels: Mapping[str, pa.Table], names: Sequence[str]
) -> dict[str, pa.Table]:
    """Put the value of the item in place of the value of each query, for measures of items."""
    joined = dict(per_query)
    items = {task: item_names(labels.get(task), len(table)) for task, table in per_query.items()}
    for named in parse(names) if names else []:
        scope = named.measure.joined
        if not scope:
            continue
        present = [task for task in joined if named.name in joined[task].column_names]
        for tasks in [present] if scope == "all" else [[task] for task in present]:
            codes = name_codes(pa.concat_arrays([items[task].cast(pa.string()) for task in tasks]))
            sizes = [len(items[task]) for task in tasks]
            values = np.concatenate([joined[task][named.name].to_numpy() for task in tasks])
            lowest = np.full(int(codes.max(initial=-1)) + 1, np.inf)
            np.minimum.at(lowest, codes, values)
            for task, part in zip(tasks, np.split(lowest[codes], np.cumsum(sizes)[:-1]), strict=True):
                place = joined[task].column_names.index(named.name)
                joined[task] = joined[task].set_column(place, named.name, pa.array(part))
    return joined


def item_names(labels: pa.Table | None, queries: int) -> pa.Array:
    """(n,) the item of each query; null for a query that is an item of its own."""
    if labels is None or GROUP not in labels.column_names:
        return pa.nulls(queries, pa.string())
    return labels[GROUP].combine_chunks()


# What tasks say about their evaluation where the caller does not: ties and measures.


def ties_of(tasks: Iterable[Task]) -> Ties:
    """How equal scores are counted where nobody says: as the tasks do."""
    rules = {task.ties: task.name for task in tasks}
    if len(rules) > 1:
        listing = ", ".join(f"{name}: {rule}" for rule, name in rules.items())
        raise ConfigurationError(
            f"the tasks count equal scores in different ways ({listing}).",
            hint="say one for all: ties='pessimistic'",
            code="tasks-count-equal-scores",
        )
    return next(iter(rules), "id")


def least_depth(ranks: Mapping[str, Sequence[Ranks]]) -> int | None:
    """The depth of the shallowest ranking; None where all are exact to the end."""
    depths = [part.depth for parts in ranks.values() for part in parts if part.depth is not None]
    return min(depths) if depths else None


def measures_of(tasks: Collection[Task]) -> list[str] | None:
    """The measures that are taken where nobody says: those of the tasks."""
    names = list(dict.fromkeys(name for task in tasks for name in task.measures))
    if len(tasks) < 2:
        names = [name for name in names if MEASURES.get(base_of(name)).joined != "all"]
    return names or None
