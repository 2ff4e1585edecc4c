"""The figures of one evaluation, with their captions: what `visir.reports.plots` draws from a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records import Qrels, Result, Run
from visir.reports.blocks import Figure
from visir.reports.chance import expected_by_chance
from visir.reports.examples import ExampleQueries, first_ranks
from visir.reports.plots import hit_curves, rank_distribution, training_curves
from visir.reports.svg import themed
from visir.reports.words import task_words

Ranks = Mapping[str, NDArray[np.float64]]


def figures(
    result: Result,
    *,
    runs: Mapping[str, Run],
    qrels: Mapping[str, Qrels],
    training: Sequence[Mapping[str, Any]] | None,
) -> list[Figure]:
    """What can be drawn: ranks if the result or the runs know them, chance if the galleries do, training if given."""
    ranks = _ranks(result, runs, qrels)
    chance = expected_by_chance(result, runs, qrels) if ranks else {}
    drawn = []
    if any(np.isfinite(values).any() for values in ranks.values()):
        random = " The thin dotted lines are what a random order would reach." if chance else ""
        drawn.append(
            Figure(
                themed(hit_curves(ranks, chance=chance), "hits", f"Curves of hit@k. {_in_words(ranks)}"),
                "How far down one has to look",
                f"Share of queries with a right answer among the first k (hit@k), k on a logarithmic scale.{random}",
            )
        )
        drawn.append(
            Figure(
                themed(rank_distribution(ranks), "bands", f"Bars over bands of ranks. {_in_words(ranks)}"),
                "Where the first right answer stands",
                "Share of queries whose first right answer stands at each rank.",
            )
        )
    if training:
        drawn.append(
            Figure(
                themed(training_curves(training), "training", "Training curves: loss and validation."),
                "How it was trained",
                f"Loss and validation measures over the {len(training):,} entries of the training history.",
            )
        )
    return drawn


def _ranks(result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels]) -> dict[str, NDArray[np.float64]]:
    """Task -> the rank of each query's first positive: from the result, otherwise from the run."""
    ranks: dict[str, NDArray[np.float64]] = {}
    for task in dict.fromkeys((*result.tasks, *runs)):
        measured = first_ranks(result, task)
        run = runs.get(task)
        if measured is not None:
            values = measured[1]
            # A positive outside the gallery is counted as one rank below the last: nobody can find it.
            is_known = run is not None and run.gallery.is_known
            ranks[task] = np.where(values > run.gallery.size, np.inf, values) if run and is_known else values
        elif run is not None and task in qrels:
            examples = ExampleQueries(run, qrels[task])
            ranks[task] = examples.ranks[examples.judged]
    return ranks


def _in_words(ranks: Ranks) -> str:
    """The curves for those who cannot see them."""
    return " ".join(
        f"{task_words(task)}: a right answer among the first 1, 5, 10 and 100 for "
        + ", ".join(f"{100 * float(np.mean(values <= k)):.1f} %" for k in (1, 5, 10, 100))
        + " of the queries."
        for task, values in ranks.items()
    )
