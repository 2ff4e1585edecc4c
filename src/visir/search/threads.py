"""Threads: the same work on every core, each on its own share. Kernels release the interpreter's lock meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

Share = tuple[float, float]
"""From where to where a core works, as fractions of the whole."""


def spread(work: Callable[[Share], None]) -> None:
    """Call `work` once per core, each with its share, and wait; results must not depend on where shares are cut."""
    n = cores()
    if n == 1:
        work((0.0, 1.0))
        return
    others = [_pool(n - 1).submit(work, (i / n, (i + 1) / n)) for i in range(1, n)]
    try:
        work((0.0, 1 / n))
    finally:
        faults = [other.exception() for other in others]
    for fault in faults:
        if fault is not None:
            raise fault


def piece(n: int, share: Share) -> tuple[int, int]:
    """The share of [0, n), cut at multiples of 16 (a cache line of float32)."""
    start, stop = (min(n, round(n * edge / 16) * 16) if edge < 1 else n for edge in share)
    return start, stop


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products on the thread that asks for them, while every core asks for its own.

    A BLAS that spreads a product itself leaves its threads spinning for some milliseconds after each, in the way of
    whatever comes next.
    """
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    limited: AbstractContextManager[Any] = ThreadpoolController().limit(limits=1, user_api="blas")
    return limited


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    # Daemonic in effect: idle threads end with the interpreter. Keyed by size, because the affinity may change.
    return ThreadPoolExecutor(workers, "visir-search")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no threads but its own
