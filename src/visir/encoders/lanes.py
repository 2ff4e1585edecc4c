"""Lanes: networks of PyTorch on the CPU compute a piece of a batch on each core, from the file to the vectors.

One product spread over all cores makes its threads wait for one another, and OpenMP lets them spin meanwhile: beside
other work, up to half of the processor's time. Here no thread waits for another: each lane is a thread that reads,
decodes and computes pieces of its own, on one core.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.cross_encoder import CrossEncoder

Piece = TypeVar("Piece")
Result = TypeVar("Result")

PIECE = 8
"""Pictures of a piece: fewer have smaller products, which cost more; the layers of more do not stay in the caches."""
_LAST_PIECE, _LAST = 4, 16
"""So many of the last pictures of all are in smaller pieces, so that no lane waits long for another."""
TEXTS = 16
"""Texts of a piece: more are padded more, and their layers are larger."""


def pieces(start: int, stop: int, size: int, total: int) -> Iterator[range]:
    """The rows from `start` to `stop`, of `total`, in pieces that lie in batches of `size`."""
    # Where they are cut depends on the numbers of the rows alone: neither on the cores, nor on where an interrupted
    # call had stopped, nor, for sizes that are multiples of `PIECE`, on the size. A network on one thread gives the
    # same bits for the same piece, so vectors do not depend on any of these.
    for begin in range(start - start % size, stop, size):
        first, end = begin, min(begin + size, stop)
        while first < end:
            last = min(first + (PIECE if total - first > _LAST else _LAST_PIECE), end)
            if last > start:
                yield range(max(first, start), last)
            first = last


def lanes_of(encoder: Encoder | CrossEncoder) -> int | None:
    """How many pieces a model may compute at once: as many as PyTorch has threads; None where it takes no lanes."""
    if not encoder.in_lanes:
        return None
    import torch

    return torch.get_num_threads()


def over_lanes(work: Callable[[Piece], Result], pieces: Iterable[Piece], cores: int) -> Generator[Result, None, None]:
    """`work` of each piece, in order, on so many cores; pieces are taken a few ahead, in the calling thread."""
    ahead = deque[Piece]()
    coming = iter(pieces)
    while len(ahead) < cores and (piece := next(coming, None)) is not None:
        ahead.append(piece)
    lanes = min(cores, len(ahead))
    if lanes < 2:  # nothing to do at once: this thread does it, on all its cores
        while ahead:
            yield work(ahead.popleft())
            ahead.extend([] if (piece := next(coming, None)) is None else [piece])
        return
    # With more cores than pieces, several threads share a piece, which changes the last bits of some networks.
    begin = partial(_compute_on, cores // lanes)
    pool, waiting = ThreadPoolExecutor(lanes, "lane", initializer=begin), deque[Future[Result]]()
    try:
        with _memory_kept():
            while True:
                while len(waiting) < 2 * lanes:
                    piece = ahead.popleft() if ahead else next(coming, None)
                    if piece is None:
                        break
                    waiting.append(pool.submit(work, piece))
                if not waiting:
                    return
                yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_setting = threading.Lock()


def _compute_on(threads: int) -> None:
    """Let PyTorch compute on so many threads what this thread asks for, and nobody else."""
    import torch

    # PyTorch has a number for each thread, and one of the process for threads to come, which it sets at the same time.
    # A thread that has none yet reads the latter, and another one sets it back at once: whatever becomes of the
    # encoding, the program goes on with its own number.
    with _setting:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        restoring = threading.Thread(target=torch.set_num_threads, args=(before,))
        restoring.start()
        restoring.join()


# Memory of layers. What a network needs for one layer it frees for the next. glibc gives blocks of that size back to
# the kernel, and the next layer has the kernel fill new pages with zeros: up to 15,000 faults a picture, a tenth of the
# time. While there are lanes, blocks up to 32 MB (the most that glibc allows) come from memory that is kept. Then what
# is unused goes back at once. The numbers cannot be read, so those that are set then are the ones at which glibc
# itself arrives in a program that frees a block of 32 MB.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # the names of mallopt's options are M_…
_BLOCK, _KEPT = 32 << 20, 1 << 30
_inside = 0


@contextmanager
def _memory_kept() -> Iterator[None]:
    """Keep freed memory until the last thread leaves."""
    global _inside
    c = _glibc()
    if c is None:
        yield
        return
    with _setting:
        _inside += 1
        c.mallopt(_MMAP_THRESHOLD, _BLOCK)
        c.mallopt(_TRIM_THRESHOLD, _KEPT)
    try:
        yield
    finally:
        with _setting:
            _inside -= 1
            if _inside == 0:
                c.mallopt(_TRIM_THRESHOLD, 2 * _BLOCK)
                c.malloc_trim(0)


@cache
def _glibc() -> Any:
    """The C library, where it is one whose memory can be told so."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
