"""Threads: compiled loops over a fixed number of parts, so that the cuts are the same for any number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch

_PARTS = 8


def spread(n: int, work: Callable[[int, int], None]) -> None:
    """Call `work(first, last)` on a fixed number of parts of [0, n), on as many threads as torch has."""
    edges = np.linspace(0, n, _PARTS + 1).astype(int).tolist()
    parts = [(lo, hi) for lo, hi in pairwise(edges) if lo < hi]
    threads = torch.get_num_threads()
    if threads == 1:
        for lo, hi in parts:
            work(lo, hi)
    else:
        list(_pool(threads).map(lambda part: work(*part), parts))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "visir-sparse")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no threads but its own
