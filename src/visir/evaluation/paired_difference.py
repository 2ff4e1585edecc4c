"""The difference of two systems in one measure: its test, its interval and its direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.comparison import Difference, untested_notes
from visir.evaluation.intervals import difference_interval
from visir.evaluation.measures import MEASURES, base_of
from visir.evaluation.significance import (
    FEW_UNITS,
    FEWEST_UNITS,
    NO_INTERVAL,
    Correction,
    TestName,
    corrected,
    paired_test,
)

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
    return "two-sided " + _by_task({task: flips if _is_few(count, test) else usual for task, count in units.items()})


def intervals_in_words(units: Mapping[str, int]) -> str:
    """The intervals that were computed, as a reader meets them."""
    flips, usual = "that of sign flips", "t"
    others = _by_task({task: flips if FEWEST_UNITS <= n < FEW_UNITS else usual for task, n in units.items()})
    return f"95 % intervals: Agresti and Min of hits; of other measures {others}"


def _is_few(count: int, test: TestName) -> bool:
    return test == "t" and 1 < count < FEW_UNITS


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


def notes_of(differences: Sequence[Difference], units: Mapping[str, int], test: TestName) -> tuple[str, ...]:
    """What a reader must know of the tests: few units, mean ranks, and what could not be tested."""
    notes = few_units_notes(units, test)
    if any(base_of(difference.measure) == "mean_rank" for difference in differences):
        notes.append(_OF_RANKS)
    return (*notes, *untested_notes(differences))
