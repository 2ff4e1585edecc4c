"""Threads: the same work on every core, each on its own share. Kernels release the interpreter's lock meanwhile."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, Self

from visir.errors import ConfigurationError

# Work in a thread beside the program: it ends by `stop`, with a `with` block, or by Ctrl-C in `wait`.


class BackgroundThread(ABC):
    """Something that runs in `_thread` until it is stopped."""

    _thread: threading.Thread

    @abstractmethod
    def stop(self) -> None:
        """End it, and return when it has ended."""

    def wait(self) -> None:
        """Return when it has been stopped, by another thread or by Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


Share = tuple[float, float]
"""From where to where a core works, as fractions of the whole."""

_PARTS = 8


_PIECE = 16
"""Rows of the smallest share: a cache line of float32."""


def spread(work: Callable[[Share], None], rows: int | None = None) -> None:
    """Call `work` once per core, each with its share, and wait; results must not depend on where shares are cut."""
    n = cores() if rows is None or rows > _PIECE else 1
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


def spread_parts(n: int, work: Callable[[int, int], None]) -> None:
    """Call `work(first, last)` on a fixed number of parts of [0, n), on every core, and wait."""
    # The cuts are the same for any number of cores: for work whose results depend on them (sums, in their last bits).
    edges = [n * part // _PARTS for part in range(_PARTS + 1)]
    parts = [(first, last) for first, last in pairwise(edges) if first < last]
    if cores() == 1:
        for first, last in parts:
            work(first, last)
    else:
        list(_pool(cores()).map(lambda part: work(*part), parts))


def piece(n: int, share: Share) -> tuple[int, int]:
    """The share of [0, n), cut at multiples of 16 (a cache line of float32)."""
    if share == (0.0, 1.0):
        return 0, n
    start, stop = (min(n, round(n * edge / _PIECE) * _PIECE) if edge < 1 else n for edge in share)
    return start, stop


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on the thread that asks for them, while every core asks for its own."""
    # A BLAS that spreads a product itself leaves its threads spinning for some milliseconds after each, in the way of
    # whatever comes next. The number of threads is one for the whole process: the first thread that enters sets it, and
    # the last that leaves sets it back.
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def one_blas_thread_from_now() -> None:
    """The same for the rest of the process, and all its threads: for services, which search all the time."""
    _limit.stay()


class _BlasLimit:
    """One BLAS thread while at least one thread of the process is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> None:
        """Set one thread; also where somebody else has set more meanwhile."""
        with self._lock:
            more = [(library, threads) for library in _blas() if (threads := library.get_num_threads()) != 1]
            if self._inside == 0:
                self._before = more
            for library, _ in more:
                _set_threads(library, 1)
            self._inside += 1

    def leave(self) -> None:
        """Set back what was there, unless another thread is still inside."""
        with self._lock:
            if self._inside == 1:
                for library, threads in self._before:
                    _set_threads(library, threads)
            self._inside = max(0, self._inside - 1)  # 0 before: this process was forked inside

    def stay(self) -> None:
        """Set one thread, which whoever leaves does not set back."""
        with self._lock:
            self._before = []
            for library in _blas():
                _set_threads(library, 1)


_limit = _BlasLimit()


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of a BLAS's threads."""
    # threadpoolctl 3.8 takes numbers for OpenBLAS from the first thread that set one, until this is cleared; from any
    # other thread it takes none, and says nothing.
    clear = getattr(library, "clear_controlling_thread", lambda *, force: None)
    clear(force=True)
    library.set_num_threads(threads)
    clear(force=True)


@cache
def _blas() -> list[Any]:
    """The loaded BLAS libraries."""
    # Looking for them takes 7 ms, a search among thousands 1 ms; the one that NumPy multiplies with is there from
    # NumPy's import on.
    import numpy  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if library.get_num_threads() is not None]


def cores() -> int:
    """How many cores compiled loops work on: the usable ones, or OMP_NUM_THREADS of them, as in other libraries."""
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(usable_cores(), int(threads)) if threads.isdigit() and int(threads) > 0 else usable_cores()


def usable_cores() -> int:
    """The cores this process may use (fewer than the machine has, in a container or under taskset)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    # Daemonic in effect: idle threads end with the interpreter. Keyed by size, because the affinity may change.
    return ThreadPoolExecutor(workers, "visir")


if hasattr(os, "register_at_fork"):
    # A forked process has no threads but its own, and nobody inside.
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_limit.__init__)  # type: ignore[misc]


# Which of several processes this one is, as the launcher that started it tells in the environment.


def launched() -> tuple[int, int]:
    """(number of this process, number of processes), as `torchrun` and `accelerate launch` tell it; else (0, 1)."""
    # For several processes on the CPU take `torchrun`. There `accelerate launch` leaves them to MPI, and starts a
    # single one without it: told to meet others at `MASTER_PORT`, but not how many. That raises `ConfigurationError`.
    if "ACCELERATE_USE_CPU" in os.environ and "MASTER_PORT" in os.environ and "WORLD_SIZE" not in os.environ:
        raise ConfigurationError(
            "accelerate launch was asked for several processes, but started this one alone, as it does on the CPU.",
            hint="torchrun --nproc-per-node 2 -m visir …; or start one process without a launcher",
        )
    rank, count = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < count:
        raise ConfigurationError(
            f"RANK={rank} of WORLD_SIZE={count}: there is no such process.",
            hint="unset both to start one process; processes are counted from 0",
            code="no-such-process",
        )
    return rank, count


def launched_here() -> tuple[int, int]:
    """The same on this machine: (`LOCAL_RANK`, `LOCAL_WORLD_SIZE`); what is not told is as over all machines."""
    rank, count = launched()
    return _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", count)


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if value == "":
        return default
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(
            f"{name}={value!r} is not a number.", hint=f"unset {name}", code="not-number"
        ) from None
