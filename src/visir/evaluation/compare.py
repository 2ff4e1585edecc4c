"""Compare results of one protocol, query by query, with significance tests corrected for many comparisons."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections import read_qrels
from visir.display import Displayed, Plotted, Tabular, brief, counted
from visir.errors import ConfigurationError, ProtocolError, VisirError, nearest, raise_faults
from visir.evaluation.brittleness_runs import evaluate_run
from visir.evaluation.chance import check
from visir.evaluation.classification.labelling import CLASSIFICATION, load_classification
from visir.evaluation.classification.result import Classification, method_title
from visir.evaluation.measures import MEASURES, Named, base_of, is_called, read_measure
from visir.evaluation.measures.measure import everyday_name, recalls_of
from visir.evaluation.results import Evaluation, Saved, is_result, load
from visir.evaluation.scoring import CHOICES, canonical
from visir.evaluation.statistics import (
    FEW_UNITS,
    FEWEST_UNITS,
    NO_INTERVAL,
    Correction,
    TestName,
    clusters_of,
    corrected,
    difference_interval,
    labels_clusters,
    paired_test,
)
from visir.evaluation.systems.vectors import is_run
from visir.fingerprint import hash_columns
from visir.records import Gallery, Protocol, Result, Run, labels_of
from visir.records.collection import task_words
from visir.retrieval.formats import read_run
from visir.storage import is_made_by_visir

# A classification as the result of an evaluation: each picture is a query, the classes are the candidates.

WITH_PROMPTS = ("zero-shot", "tip-adapter", "tip-adapter-f")
"""The methods whose numbers depend on the templates."""


def as_result(classification: Classification) -> Result:
    """The values of every picture, so that two classifications can be compared as other results are."""
    # Top-1 and top-5 are hit@1 and hit@5. Each method with its number of shots is a task. Of several draws a picture
    # has the mean, so a test looks at the pictures, and the shots are those that were drawn.
    rows = dict(classification.protocol)
    ids, classes, names = (
        pa.array(column, pa.string()) for column in (classification.ids, classification.classes, classification.names)
    )
    pictures = hash_columns([ids, classes.take(pa.array(classification.truth))])
    cutoffs = (1, 5) if len(classes) > 5 else (1,)
    tables, candidates, queries = {}, {}, {}
    for (method, shots), predictions in classification.predictions.items():
        title = method_title(method, shots)
        values = {f"hit@{k}": (predictions.ranks <= k).mean(axis=0) for k in cutoffs}
        tables[title] = pa.table({"query_id": ids, **values})
        prompts = rows.get("prompts", "") if method in WITH_PROMPTS else ""
        trained = [rows.get(name, "") for name in ("drawn", "settings")] if shots else []
        candidates[title] = _line(f"{len(classes):,} classes · {hash_columns([classes, names])[:12]}", prompts)
        queries[title] = _line(f"{len(ids):,} pictures · {pictures[:12]}", *trained)
    protocol = Protocol(
        collection=classification.source,
        collection_fingerprint=pictures,
        split=rows.get("split", "all"),
        relevance="classes",
        galleries=candidates,
        queries=queries,
        ties="pessimistic",
    )
    aggregates = {
        title: {name: float(np.mean(table[name].to_numpy())) for name in table.column_names[1:]}
        for title, table in tables.items()
    }
    return Result(classification.model, protocol, tables, aggregates, notes=classification.notes)


def _line(*parts: str) -> str:
    return "; ".join(filter(None, parts))


USUAL = ("nDCG@10", "AP", "RR", "R@10")
"""The measures of runs when nothing is named."""


@dataclass(frozen=True)
class Contestants:
    """Results that are to be compared."""

    results: tuple[Result, ...]  # the results, the baseline first
    labels: tuple[str, ...]  # their names, all different
    allow: tuple[str, ...] = ()  # the protocol fields that may differ because of what they are
    notes: tuple[str, ...] = ()  # notes for the reader


def contestants_of(given: Sequence[Any], qrels: Any = None, measures: Sequence[str] | None = None) -> Contestants:
    """Open what is to be compared."""
    named = _named(given)
    results = [] if qrels is not None else [_result(value, name) for name, value in named]
    if len(named) < 2:
        raise VisirError(
            "a comparison needs at least two results.",
            hint="visir.compare(first, second), or visir.compare({'a': run, 'b': run}, qrels=qrels)",
            code="comparison-needs-least-two",
        )
    if qrels is None:
        return Contestants(tuple(results), _labels(results))
    if all(name is None and isinstance(value, (str, Path)) for name, value in named):
        paths = [Path(value) for _, value in named]
        named = list(zip(_names_of(paths), paths, strict=True))
    return _of_runs([(name, _run(value, name)) for name, value in named], qrels, measures)


def _named(given: Sequence[Any]) -> list[tuple[str | None, Any]]:
    """(name or None, value) of each, from a row, a list, or a dictionary."""
    if len(given) == 1 and isinstance(given[0], Mapping) and not _is_answers(given[0]):
        return [(str(name), value) for name, value in given[0].items()]
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = given[0]
    return [(None, value) for value in given]


def _names_of(paths: Sequence[Path]) -> list[str]:
    """Names of the files of runs without their endings; where two are alike what differs in their paths."""
    absolute = [path.absolute() for path in paths]
    shared = Path(os.path.commonpath([path.parent for path in absolute]))
    stems, short = [path.stem for path in paths], [str(path.relative_to(shared)) for path in absolute]
    numbered = [f"{name} ({number})" for number, name in enumerate(short, 1)]
    return next((names for names in (stems, short) if len(set(names)) == len(names)), numbered)


def _is_answers(value: Mapping[Any, Any]) -> bool:
    """Whether a dictionary is a run itself, {query: {document: score}}, and not runs by name."""
    answers = [answer for answer in value.values() if isinstance(answer, Mapping)]
    return len(answers) == len(value) > 0 and not any(
        isinstance(score, Mapping) for answer in answers for score in list(answer.values())[:1]
    )


def _result(value: Any, name: str | None) -> Result:
    if isinstance(value, (str, Path)):
        result: Any = result_in(value)
    elif isinstance(value, Classification):
        result = as_result(value)
    else:
        result = value.result if isinstance(value, Evaluation) else value
    if not isinstance(result, Result):
        raise _needs_judgements(f"a {type(value).__name__}")
    return result if name is None else replace(result, system=name)


def result_in(folder: str | Path) -> Result:
    """Read the result of a folder, whether it is of `visir evaluate` or of `visir classify`."""
    if is_run(folder) and not is_result(folder):
        raise _needs_judgements(repr(str(folder)))
    if is_made_by_visir(folder, CLASSIFICATION.name):
        return as_result(load_classification(folder))
    return load(folder)


def _needs_judgements(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is no result, and runs need judgements.",
        hint="visir.compare(first, second, qrels='qrels.txt'), or --qrels qrels.txt; results are what visir.evaluate "
        "returns or saved",
        code="no-result-runs-need",
    )


def _run(value: Any, name: str | None) -> Run:
    runs = value.runs if isinstance(value, Evaluation) else None
    if runs is not None and len(runs) == 1:
        value = next(iter(runs.values()))
    elif isinstance(value, (Evaluation, Result)):
        raise ConfigurationError(
            f"{value.system} is a result already; judgements are for runs.", hint="leave qrels out, or give its runs"
        )
    return read_run(value, name=name)


def _of_runs(runs: Sequence[tuple[str | None, Run]], qrels: Any, measures: Sequence[str] | None) -> Contestants:
    """The results of runs with one set of judgements; they are searches of one gallery, as far as that is known."""
    judged = read_qrels(qrels)
    known: Gallery | None = next((run.gallery for _, run in runs if run.gallery.is_known), None)
    tasks = [run.task for _, run in runs]
    notes: list[str] = []
    results = []
    for name, run in runs:
        if known is not None and not run.gallery.is_known:
            notes.append(check(run, known) or "")
            run = replace(run, gallery=known)
        run = replace(run, task=tasks[0], name=name or run.name)
        results.append(evaluate_run(judged, run, measures=measures or USUAL).result)
        notes += [f"{run.name}: {note}" for note in results[-1].notes]
    depths = [run.depth for _, run in runs]
    if len(set(depths)) > 1:
        notes.append(
            f"answers have up to {' | '.join(f'{depth:,}' for depth in depths)} documents; what is not among them "
            "counts as not found, so measures without a cutoff favour the longer"
        )
    return Contestants(tuple(results), _labels(results), ("depth",), tuple(filter(None, notes)))


def _labels(results: Sequence[Result]) -> tuple[str, ...]:
    """The systems' names, numbered where they repeat."""
    names = [result.system for result in results]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: index + 1].count(name)})"
        for index, name in enumerate(names)
    )


# The record of a comparison: the differences of systems, and how they were tested.


@dataclass(frozen=True)
class Difference(Displayed):
    """One measure of one task: `system` against `baseline`.

    Attributes:
        task: The task.
        measure: The measure, with its cutoff.
        system: The system that is compared.
        baseline: The system that it is compared with: the first one, or of a comparison of all pairs an earlier one.
        value: The aggregate of the system: a fraction; rsum in points.
        baseline_value: The aggregate of the baseline.
        difference: `value` − `baseline_value`.
        low: The lower end of the 95 % interval of the mean difference; NaN where there is none.
        high: The upper end.
        p: The p-value of this test alone, in [0, 1].
        p_corrected: The p-value corrected for all comparisons made together.
        better: Whether the difference is an improvement (lower ranks are better).
        untested: Why the difference cannot be tested, or ""; if so, p and the interval are NaN.
    """

    task: str
    measure: str
    system: str
    baseline: str
    value: float
    baseline_value: float
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    better: bool
    untested: str = ""

    def __repr__(self) -> str:
        p = f"not tested: {self.untested}" if self.untested else f"p = {self.p_corrected:.2g} (corrected)"
        return brief(
            self,
            f"{self.task} {self.measure}: {self.system} {self.value:.4g}, {self.baseline} {self.baseline_value:.4g}, "
            f"{self.difference:+.4g}",
            f"{'no interval' if isnan(self.low) else f'95 % interval {self.low:+.4g} to {self.high:+.4g}'}, {p}",
        )


@dataclass(frozen=True)
class Comparison(Tabular, Plotted, Saved):
    """All differences of one comparison, and how they were tested.

    Attributes:
        systems: The names of the systems, the baseline first.
        differences: One for each further system, task and measure.
        how: The test in words.
        correction: The name of the correction.
        family: The number of comparisons that the correction counts (those that were tested).
        allowed: The protocol fields that differ and were allowed: {field: values in the order of the systems}.
        system_differences: The fields in which systems may always differ (preprocessing), in the same form.
        notes: Warnings for the reader.
        recall: What R@k means: "hit", "recall" or "capped_recall".

    Example:
        >>> import visir
        >>> judged = {query: {"a": 1} for query in ("q1", "q2", "q3", "q4")}
        >>> good = {query: {"a": 0.9, "b": 0.1} for query in judged}
        >>> bad = {query: {"a": 0.1, "b": 0.9} for query in judged}
        >>> comparison = visir.compare({"bad": bad, "good": good}, qrels=judged, measures=["MRR"])
        >>> comparison.systems, len(comparison.differences), comparison.differences[0].difference
        (('bad', 'good'), 1, 0.5)
    """

    systems: tuple[str, ...]
    differences: tuple[Difference, ...]
    how: str
    correction: str
    family: int
    allowed: Mapping[str, tuple[Any, ...]]
    system_differences: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...] = ()
    recall: str = "hit"

    def __getitem__(self, name: tuple[str, ...]) -> Difference:
        """The difference of a system in a measure: `comparison["b", "t2i R@1"]`, `comparison["b", "nDCG@10"]`.

        Against another system than the first, of all pairs: `comparison["c", "b", "nDCG@10"]`.
        """
        system, *others, measure = name
        baseline = others[0] if others else self.systems[0]
        tasks = list(dict.fromkeys(difference.task for difference in self.differences))
        named = [task for task in tasks if measure.startswith(f"{task} ")]
        task = (named or tasks)[0] if named or len(tasks) == 1 else ""
        typed = measure.removeprefix(f"{task} ")
        for difference in self.differences:
            of = (difference.system, difference.baseline, difference.task)
            if of == (system, baseline, task) and is_called(difference.measure, typed):
                return difference
        known = [f"[{entry.system!r}, {f'{entry.task} {entry.measure}'!r}]" for entry in self.differences[:12]]
        raise VisirError(
            f"there is no difference {list(name)!r}.",
            hint=f"there are {', '.join(known)}",
            code="no-difference",
        )

    def __repr__(self) -> str:
        lines = [f"{system}: {self.verdict(system)}" for system in self.systems[1:]]
        return brief(self, f"against {self.systems[0]}", *lines[:3], f"{self.how}, correction: {self.correction}")

    def verdict(self, system: str, *, level: float = 0.05) -> str:
        """Say in words how one system differs from the baseline.

        Args:
            system: The name of the system.
            level: The level of significance, of the corrected p-values.

        Raises:
            VisirError: The comparison has no such system.
        """
        if system not in self.systems[1:]:
            raise VisirError(f"the comparison has no system {system!r}", hint=nearest(system, self.systems[1:]))
        of = (system, self.systems[0])
        tested = [entry for entry in self.differences if (entry.system, entry.baseline) == of and not entry.untested]
        if not tested:
            return "no measure could be tested"
        significant = [entry.better for entry in tested if entry.p_corrected < level]
        parts = [f"better in {sum(significant)}"] if any(significant) else []
        parts += [f"worse in {len(significant) - sum(significant)}"] if not all(significant) else []
        measures = f"{counted(len(tested), 'measures')} (corrected p < {level:g})"
        if not parts:
            return f"no difference is significant, of {measures}"
        return f"significantly {' and '.join(parts)} of {measures}"


# The difference of two systems in one measure: its test, its interval and its direction.

Floats = NDArray[np.float64]

_TESTS = {"t": "paired t-test", "randomisation": "paired randomisation test", "wilcoxon": "Wilcoxon signed-rank test"}
_OF_RANKS = (
    "mean_rank: p is that of the logarithms of ranks, and there is no interval, because a few very long ranks decide "
    "a mean rank"
)


def paired_difference(
    task: str,
    measure: str,
    systems: tuple[str, str],
    values: Floats,
    baseline: Floats,
    clusters: object = None,
    *,
    aggregates: tuple[float, float] | None = None,
    test: TestName = "t",
    seed: int = 0,
    not_known: str = "",
) -> Difference:
    """Test one measure of a system against that of the baseline."""
    # Of `mean_rank` the logarithms of ranks are tested. Ranks have heavy tails: where two systems have the same mean
    # rank and one of them the longer tail, the t-test of ranks finds 8 to 9 % differences with 50 to 1,000 queries, and
    # the interval holds the truth as rarely (`benchmarks/calibration.py`). So there is no interval.
    # values: (n,) what each query has under the system.
    # baseline: (n,) the same under the baseline.
    # clusters: (n,) the image of each query; None takes each query as its own unit.
    value, before = aggregates or (float(values.mean()), float(baseline.mean()))
    lower_is_better = base_of(measure) in MEASURES and MEASURES.get(base_of(measure)).best == "low"
    of_ranks = base_of(measure) == "mean_rank"
    better = value < before if lower_is_better else value > before
    if not_known:
        return Difference(task, measure, *systems, value, before, value - before, nan, nan, nan, nan, better, not_known)
    gaps = np.log(values) - np.log(baseline) if of_ranks else values - baseline
    outcome = paired_test(test, gaps, clusters, seed=seed)
    low, high = NO_INTERVAL if of_ranks else difference_interval(values, baseline, clusters)
    p, reason = outcome.p, outcome.reason
    if of_ranks and not reason and gaps.mean() * (value - before) < 0:
        p, reason = nan, "the mean of the ranks and that of their logarithms point in opposite directions"
    return Difference(task, measure, *systems, value, before, value - before, low, high, p, p, better, reason)


def with_correction(differences: Sequence[Difference], correction: Correction) -> tuple[Difference, ...]:
    """The differences with p-values corrected over all of them as one family."""
    adjusted = corrected([difference.p for difference in differences], correction)
    return tuple(replace(difference, p_corrected=float(p)) for difference, p in zip(differences, adjusted, strict=True))


def in_words(test: TestName, seed: int, units: Mapping[str, int]) -> str:
    """The test that was made, as a reader meets it: with few units it is another one."""
    usual = f"{_TESTS[test]}{f' (seed {seed})' if test == 'randomisation' else ''}"
    flips = "exact test of sign flips"
    is_few = {task: test == "t" and 1 < count < FEW_UNITS for task, count in units.items()}
    return "two-sided " + _by_task({task: flips if few else usual for task, few in is_few.items()})


def intervals_in_words(units: Mapping[str, int]) -> str:
    """The intervals that were computed, as a reader meets them."""
    flips, usual = "that of sign flips", "t"
    others = _by_task({task: flips if FEWEST_UNITS <= n < FEW_UNITS else usual for task, n in units.items()})
    return f"95 % intervals: Agresti and Min of hits; of other measures {others}"


def _by_task(names: Mapping[str, str]) -> str:
    """A name for all tasks, or each name with its tasks."""
    tasks: dict[str, list[str]] = {}
    for task, name in names.items():
        tasks.setdefault(name, []).append(task)
    return ", ".join(name if len(tasks) == 1 else f"{name} ({', '.join(of)})" for name, of in tasks.items())


def few_units_notes(units: Mapping[str, int], test: TestName, *, intervals: bool = True) -> list[str]:
    """Why tests and intervals of few units are others than usual, and what they cannot show."""
    few = {task: count for task, count in units.items() if 1 < count < FEW_UNITS}
    notes = []
    if few and test == "t":
        which = ", ".join(f"{task} has {count}" for task, count in few.items())
        notes.append(
            f"below {FEW_UNITS} units ({which}) signs are flipped, in every possible way, because a t-test rests on "
            "differences that are about normal, and so few cannot show that they are"
        )
    fewest = [task for task, count in few.items() if count < FEWEST_UNITS]
    if fewest:
        limits = f"below {FEWEST_UNITS} units ({', '.join(fewest)}) no p can be below 0.05"
        limits += ", and intervals of t rest on differences that are about normal" if intervals else ""
        notes.append(limits)
    return notes


def notes_of(
    differences: Sequence[Difference], units: Mapping[str, int], test: TestName, recall: str = "hit"
) -> tuple[str, ...]:
    """What a reader must know of the tests: few units, mean ranks, and what could not be tested."""
    notes = few_units_notes(units, test)
    if any(base_of(difference.measure) == "mean_rank" for difference in differences):
        notes.append(_OF_RANKS)
    by_reason: dict[str, list[str]] = {}
    for difference in differences:
        if difference.untested:
            name = f"{task_words(difference.task)} {everyday_name(difference.measure, recall)} of {difference.system}"
            by_reason.setdefault(difference.untested, []).append(name)
    return (*notes, *(f"not testable, because {reason}: {', '.join(of)}" for reason, of in by_reason.items()))


Unit = Literal["image", "caption"]
"""The unit of a sample: an image with all its captions, or a single caption."""
Against = Literal["first", "all"]
"""With which systems each one is compared: the first, or all before it."""


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
    against: Against = "first",
    seed: int = 0,
) -> Comparison:
    """Compare each further system with the first, measure by measure, paired by query.

        visir.compare(first, second)                                        evaluations, or folders of results
        visir.compare({"a": run, "b": "b.trec"}, qrels="qrels.txt")         runs of any tool

    Args:
        *results: Two or more, one by one, in a list, or as {name: result}; the first is the baseline. Each is an
            `Evaluation`, a `Result`, or the folder of one; with `qrels`, a run in any form that `visir.read_run` takes.
        qrels: Judgements (TREC, TSV, CSV, JSON), when the results are files of runs. In any form that
            `visir.collections.read_qrels` takes.
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
        unit: What is a sample: "image", with all its captions (default), or "caption", which finds too much. "image"
            takes the captions of one image together, because they are not independent (see `statistics.py`), and so the
            queries with one label "image" or "group". "caption" takes every caption alone, as many papers do, and so
            reports many false differences. None is "image" if the results know the image of each caption (the results
            of `evaluate` and `load` do); otherwise "caption", with a note.
        against: With what each system is compared: the "first" alone, or "all" before it, which is every pair. The
            correction then counts all pairs.
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
    return compare_results(contestants, measures, test, correction, allow, unit, against, seed)


def compare_results(
    contestants: Contestants,
    measures: Sequence[str] | None,
    test: TestName,
    correction: Correction,
    allow: Sequence[str],
    unit: Unit | None,
    against: Against,
    seed: int,
) -> Comparison:
    """Compare what was opened already; the arguments are those of `compare`."""
    results, labels = contestants.results, contestants.labels
    first = results[0]
    if against not in get_args(Against):
        raise ConfigurationError(
            f"unknown against {against!r} ({nearest(str(against), get_args(Against))})", code="unknown-against"
        )
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
    rows = [{task: paired_rows(first, result, task) for task in tasks} for result in results]
    last = 1 if against == "first" else len(results)
    pairs = [(before, after) for after in range(1, len(results)) for before in range(min(last, after))]
    for before, after in pairs:
        for task in tasks:
            groups = None if unit == "caption" else clusters[task]
            differences += [
                paired_difference(
                    task,
                    name,
                    (labels[after], labels[before]),
                    _values(results[after], task, name)[rows[after][task]],
                    _values(results[before], task, name)[rows[before][task]],
                    groups,
                    aggregates=(results[after].mean(task, name), results[before].mean(task, name)),
                    test=test,
                    seed=seed,
                    not_known=_not_known([(labels[at], results[at]) for at in (after, before)], task, name),
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
            *notes_of(corrected_differences, units, test, first.protocol.recall),
        ),
        first.protocol.recall,
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
