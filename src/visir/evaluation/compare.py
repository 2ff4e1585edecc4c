"""Compare results of one protocol, query by query, with significance tests corrected for many comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, ProtocolError, VisirError, nearest, raise_faults
from visir.evaluation.clusters import clusters_of, labels_clusters
from visir.evaluation.comparison import Comparison, Difference
from visir.evaluation.contestants import USUAL, Contestants, contestants_of
from visir.evaluation.measures import Named, base_of, read_measure
from visir.evaluation.measures.measure import recalls_of
from visir.evaluation.paired_difference import (
    in_words,
    intervals_in_words,
    notes_of,
    paired_difference,
    with_correction,
)
from visir.evaluation.scoring import canonical
from visir.evaluation.significance import Correction, TestName
from visir.evaluation.typical_measures import CHOICES
from visir.records import Protocol, Result, labels_of

Unit = Literal["image", "caption"]
"""The unit of a sample: an image with all its captions, or a single caption."""


def check_comparable(results: Sequence[Result], allow: Sequence[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Check that results were measured under one protocol."""
    known = list(Protocol.__dataclass_fields__)
    raise_faults(
        ConfigurationError,
        "allow",
        [
            f"unknown protocol field {field_name!r} ({nearest(field_name, known)})"
            for field_name in allow
            if field_name not in known
        ],
    )
    common = [task for task in results[0].tasks if all(task in result.tasks for result in results)]
    protocols = [_in_tasks(result.protocol, common) for result in results]
    names = list(dict.fromkeys(name for other in protocols[1:] for name in protocols[0].differences(other)))
    values = {name: tuple(getattr(protocol, name) for protocol in protocols) for name in names}
    are_runs = all(not protocol.split and not protocol.captions for protocol in protocols)
    free = {*allow, "depth"} if are_runs else {*allow}  # runs come as deep as others made them
    refused = [name for name in names if name not in free]
    if refused:
        lines = [
            f"{name.replace('_', ' ')}: " + " | ".join(_shown(value) for value in values[name]) for name in refused
        ]
        systems = " and ".join(result.system for result in results)
        raise_faults(
            ProtocolError,
            f"{systems} were measured under different protocols and cannot be compared",
            lines,
            hint=f"evaluate them under one protocol, or allow a difference by name: allow={refused!r} "
            f"(visir compare {' '.join(f'--allow {name}' for name in refused)})",
        )
    return values


def compare(
    *results: Any,
    qrels: Any = None,
    measures: Sequence[str] | None = None,
    test: TestName = "t",
    correction: Correction = "holm",
    allow: Sequence[str] = (),
    unit: Unit | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare each further system with the first, measure by measure, paired by query.

        visir.compare(first, second)                                        evaluations, or folders of results
        visir.compare({"a": run, "b": "b.trec"}, qrels="qrels.txt")         runs of any tool

    Args:
        *results: Two or more, one by one, in a list, or as {name: result}; the first is the baseline. Each is an
            `Evaluation`, a `Result`, or the folder of one; with `qrels`, a run in any form that `visir.read_run` takes.
        qrels: The judgements of runs, in any form that `visir.collections.read_qrels` takes.
        measures: Names as people type them, which may include "rsum". None takes the measures of choices, or else the
            protocol's recall at 1, 5 and 10, rsum, mrr and mean_rank, as far as all results have them; for runs
            nDCG@10, AP, RR and R@10. `median_rank` has no paired test and is refused.
        test: "t" (paired t-test; below ten units exact sign flips), "randomisation" (sign flips), or "wilcoxon"
            (signed ranks). For measures of 0 and 1 over independent queries "randomisation" is McNemar's exact test.
        correction: "holm", "bonferroni", "bh" or "none", over *all* comparisons returned (systems × tasks × measures).
            Among twenty differences, about one is "significant" at 5 % by chance. "bh" (Benjamini and Hochberg)
            promises less than the others: of the differences called significant, 5 % are none.
        allow: Protocol fields that may differ; every other difference is refused, with the list. Of runs the depth
            may differ in any case, with a note.
        unit: What a sample is. "image" takes the captions of one image together, because they are not independent
            (see `significance.py`), and so the queries with one label "image" or "group". "caption" takes every caption
            alone, as many papers do, and so reports many false differences. None is "image" if the results know the
            image of each caption (the results of `evaluate` and `load` do); otherwise "caption", with a note.
        seed: The seed of the randomisation test.

    Returns:
        The differences. One that cannot be tested (a single query, ranks beyond the answers of a run) does not count
        for the correction. Of `mean_rank` the logarithms of ranks are tested.

    Raises:
        ProtocolError: The protocols, or the sets of queries, differ.
        ConfigurationError: `unit` is "image" and the image of a caption is not known; or a measure is unknown.
        VisirError: There are fewer than two results, or they have no measure in common.

    Example:
        >>> import visir
        >>> judged = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"a": 1}}
        >>> one = {"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 0.8, "b": 0.5}, "q3": {"b": 0.4, "a": 0.2}}
        >>> other = {"q1": {"a": 0.9, "b": 0.1}, "q2": {"b": 0.8, "a": 0.5}, "q3": {"b": 0.4, "a": 0.2}}
        >>> comparison = visir.compare({"one": one, "other": other}, qrels=judged, measures=["RR"])
        >>> round(comparison["other", "RR"].difference, 4)
        0.1667
    """
    contestants = contestants_of(results, qrels, measures)
    return compare_results(contestants, measures, test, correction, allow, unit, seed)


def compare_results(
    contestants: Contestants,
    measures: Sequence[str] | None,
    test: TestName,
    correction: Correction,
    allow: Sequence[str],
    unit: Unit | None,
    seed: int,
) -> Comparison:
    """Compare what was opened already; the arguments are those of `compare`."""
    results, labels = contestants.results, contestants.labels
    first = results[0]
    tasks = [task for task in first.tasks if all(task in result.tasks for result in results)]
    if not tasks:
        raise ProtocolError(
            "the results have no task in common: "
            + "; ".join(f"{result.system}: {', '.join(result.tasks)}" for result in results),
            code="results-no-task-common",
        )
    allowed = check_comparable(results, (*allow, *contestants.allow))
    names = _measures(results, measures, tasks)
    owners = None if unit == "caption" else _owners(results, tasks, unit)
    differences: list[Difference] = []
    informed = _informed(results)
    clusters = {task: clusters_of(informed, task) for task in tasks}
    dependent = [task for task in tasks if clusters[task] is not None]
    units = {
        task: len(first.per_query[task]) if unit == "caption" or own is None else len(np.unique(own))
        for task, own in clusters.items()
    }
    for other, label in zip(results[1:], labels[1:], strict=True):
        for task in tasks:
            rows = paired_rows(first, other, task)
            groups = None if unit == "caption" else clusters[task]
            differences += [
                paired_difference(
                    task,
                    name,
                    (label, labels[0]),
                    _values(other, task, name)[rows],
                    _values(first, task, name),
                    groups,
                    aggregates=(other.mean(task, name), first.mean(task, name)),
                    test=test,
                    seed=seed,
                    not_known=_not_known([(label, other), (labels[0], first)], task, name),
                )
                for name in names
            ]
    corrected_differences = with_correction(differences, correction)
    system_differences = {
        name: tuple(getattr(result.protocol, name) for result in results)
        for other in results[1:]
        for name in first.protocol.system_differences(other.protocol)
    }
    return Comparison(
        tuple(labels),
        corrected_differences,
        _test_in_words(test, informed, [] if unit == "caption" else dependent, seed, units),
        correction,
        sum(not difference.untested for difference in corrected_differences),
        allowed,
        system_differences,
        (
            *contestants.notes,
            *_doubts(unit, owners, tasks, dependent),
            *notes_of(corrected_differences, units, test),
        ),
    )


def _not_known(results: Sequence[tuple[str, Result]], task: str, name: str) -> str:
    """Why the values of a measure cannot be compared: ranks beyond the answers, which are not known."""
    counts = [(label, result.beyond.get(task, {}).get(name, 0), result) for label, result in results]
    parts = [f"{count:,} of {len(result.per_query[task]):,} of {label}" for label, count, result in counts if count]
    return f"ranks beyond the last answer are not known ({', '.join(parts)})" if parts else ""


def _informed(results: Sequence[Result]) -> Result:
    """The first result, with the images of captions and the labels of queries that any of the results knows."""
    first = results[0]
    captions = next((result.captions for result in results if result.captions is not None), None)
    labels = {
        task: labels_of(result.labels[task], first.per_query[task]["query_id"])
        for result in reversed(results)
        for task in result.labels
        if task in first.per_query
    }
    return replace(first, captions=captions, labels=labels)


def _owners(results: Sequence[Result], tasks: Sequence[str], unit: Unit | None) -> dict[str, str] | None:
    """The image of each caption among the queries; None when the image of a caption is not known."""
    if unit is not None and unit not in get_args(Unit):
        raise ConfigurationError(f"unknown unit {unit!r} ({nearest(unit, get_args(Unit))})", code="unknown-unit")
    owners: dict[str, str] = {}
    for result in results:
        if result.captions is not None:
            pairs = zip(result.captions["id"].to_pylist(), result.captions["image_id"].to_pylist(), strict=True)
            owners |= dict(pairs)
    of_captions = "t2i" in tasks and not labels_clusters(_informed(results), "t2i")
    caption_ids = results[0].per_query["t2i"]["query_id"].to_pylist() if of_captions else []
    unknown = [query for query in caption_ids if query not in owners]
    if not unknown:
        return owners
    if unit == "image":
        raise ConfigurationError(
            f"{results[0].system}: of {len(unknown):,} of {len(caption_ids):,} captions the image is not known, "
            f"e.g. {unknown[0]!r}.",
            hint="evaluate again (visir evaluate … --out), or test over captions by name: --unit caption",
            code="captions-image-not-known",
        )
    return None


def _doubts(
    unit: Unit | None, owners: Mapping[str, str] | None, tasks: Sequence[str], dependent: Sequence[str]
) -> list[str]:
    """Warnings about a test over captions, or over other queries of one image or item."""
    if owners is not None or not (dependent or "t2i" in tasks):
        return []
    queries = "captions" if "t2i" in tasks else "queries"
    why = "as asked for" if unit == "caption" else "because the results do not say which image a caption belongs to"
    return [
        f"{queries} of one image are taken for independent, {why}: p-values are too small and intervals too narrow "
        "(in simulations 17 to 52 % of false positives where 5 % are promised)"
    ]


def _in_tasks(protocol: Protocol, tasks: Sequence[str]) -> Protocol:
    """The protocol reduced to these tasks."""
    return protocol.changed(
        galleries={name: line for name, line in protocol.galleries.items() if name in tasks},
        queries={name: line for name, line in protocol.queries.items() if name in tasks},
    )


def _measures(results: Sequence[Result], requested: Sequence[str] | None, tasks: Sequence[str]) -> list[str]:
    recall = results[0].protocol.recall

    def everywhere(name: str) -> bool:
        return all(name in result.aggregates.get(task, {}) for result in results for task in tasks)

    if requested is None:
        usual = (*recalls_of(recall), "rsum", "mrr", "mean_rank")
        usual = CHOICES if everywhere(CHOICES[0]) else usual
        of_runs = [name for name in canonical(USUAL, recall) if not results[0].protocol.split]
        names = [name for name in (of_runs or usual) if everywhere(name)]
        if not names:
            raise VisirError("the results have no measure in common.", hint="evaluate both with the same measures")
        return names
    known = [name for name in (*results[0].measures, "rsum") if name != "median_rank"]
    names, faults = [], []
    for typed in map(str, [requested] if isinstance(requested, str) else requested):
        read = None if everywhere(typed) else read_measure(typed, recall)
        name = read.name if isinstance(read, Named) else "rsum" if typed.casefold() == "rsum" else typed
        if base_of(name) == "median_rank":
            faults.append(f"{typed!r}: the difference of two medians has no paired test; compare 'mean_rank' or 'mrr'")
        elif everywhere(name):
            names.append(name)
        elif isinstance(read, str) and name != "rsum":
            faults.append(f"{typed!r} is not in all results ({nearest(typed, known)})")
        else:
            faults.append(f"{typed!r} is not in all results; measure it first, or compare {', '.join(known)}")
    hint = f"visir.evaluate(…, measures={list(map(str, requested))})"
    raise_faults(ConfigurationError, "measures", faults, hint=hint)
    return list(dict.fromkeys(names))


def _values(result: Result, task: str, name: str) -> NDArray[np.float64]:
    """Per-query values of a measure. For rsum these are the sums of each query's recalls, in points."""
    if name != "rsum":
        return result.values(task, name)
    recalls = recalls_of(result.protocol.recall)
    total: NDArray[np.float64] = np.sum([result.values(task, name) for name in recalls], axis=0)
    return 100.0 * total


def paired_rows(first: Result, other: Result, task: str) -> NDArray[np.int64]:
    """Match the queries of two results."""
    # Returns: (n,) the rows of `other` in the order of the queries of `first`.
    first_queries = first.per_query[task]["query_id"].combine_chunks()
    other_queries = other.per_query[task]["query_id"].combine_chunks()
    positions = pc.index_in(first_queries, other_queries)
    if positions.null_count or len(first_queries) != len(other_queries):
        missing = first_queries.filter(pc.is_null(positions))
        added = other_queries.filter(pc.invert(pc.is_in(other_queries, first_queries)))
        parts = [
            f"{len(ids):,} of {system} are missing from the other, e.g. {', '.join(map(repr, ids[:3].to_pylist()))}"
            for ids, system in ((missing, first.system), (added, other.system))
            if len(ids)
        ]
        raise ProtocolError(
            f"{task}: {first.system} and {other.system} answered different queries: " + "; ".join(parts) + ".",
            hint="evaluate both over the same queries; a paired test needs pairs",
        )
    rows: NDArray[np.int64] = positions.to_numpy().astype(np.int64)
    return rows


def _test_in_words(
    test: TestName, result: Result, clustered: Sequence[str], seed: int, units: Mapping[str, int]
) -> str:
    over = "images, captions of one image together" if clustered else "queries"
    if any(labels_clusters(result, task) for task in clustered):
        over = "images and items, queries of one together"
    return f"{in_words(test, seed, units)} over {over}; {intervals_in_words(units)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in value.items()) + "}"
    return repr(value)
