"""The time of a search, and its share of the exact answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.records import Run

T = TypeVar("T")


def best_of(work: Callable[[], T], times: int = 3) -> tuple[float, T]:
    """Call `work` several times; return the least processor time in seconds, and the last result."""
    # It is the processor time of the whole process. With one thread this is the elapsed time on an idle machine. The
    # minimum is used because other work of the machine can only add to it.
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def kth_scores(run: Run, k: int) -> NDArray[np.float64]:
    """Return the (n,) k-th best score of each query: the last if there are fewer, infinite if there is none."""
    last = np.minimum(run.offsets[:-1] + k, run.offsets[1:]) - 1
    return np.where(np.diff(run.offsets) > 0, run.scores[np.maximum(last, 0)], np.inf)


def share_found(run: Run, least: NDArray[np.float64]) -> float:
    """Return the share of answers that score at least as high as the exact k-th best."""
    # Unlike a comparison of ids, this counts a document that equals one of the exact answers as found.
    # least: (n,) the exact scores of `kth_scores`.
    reached = run.scores >= np.repeat(least, np.diff(run.offsets))
    return float(reached.sum() / (np.isfinite(least).sum() * run.depth))
