"""How long a search takes, and how much of the exact answer it finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.records import Run

T = TypeVar("T")


def best_of(work: Callable[[], T], times: int = 3) -> tuple[float, T]:
    """The least processor time of some calls, in seconds, and what the last one returned.

    Processor time of the whole process: on one thread it is the time that passes on an idle machine. The least, because
    whatever else runs can only add to it.
    """
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def kth_scores(run: Run, k: int) -> NDArray[np.float64]:
    """(n,) the k-th best score of each query, the last where there are fewer; infinite where there is none."""
    last = np.minimum(run.offsets[:-1] + k, run.offsets[1:]) - 1
    return np.where(np.diff(run.offsets) > 0, run.scores[np.maximum(last, 0)], np.inf)


def share_found(run: Run, least: NDArray[np.float64]) -> float:
    """The share of answers that score at least as the exact k-th best (`kth_scores`), of as many as the run is deep.

    So, unlike by ids, whoever finds another of several equal documents loses nothing.
    """
    reached = run.scores >= np.repeat(least, np.diff(run.offsets))
    return float(reached.sum() / (np.isfinite(least).sum() * run.depth))
