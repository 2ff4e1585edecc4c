"""Batches made ahead of the model: threads, in order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from visir.training.inputs.base import EpochRandom, Examples, TrainingBatch
from visir.training.inputs.pinned_memory import pin_batch


def prefetch(
    examples: Examples,
    batches: Iterable[NDArray[np.int64]],
    draw: EpochRandom | None = None,
    workers: int | None = None,
    *,
    pin: bool = False,
) -> Generator[TrainingBatch, None, None]:
    """`examples.batch(rows, draw)` for each of `batches`, in their order, made by `workers` threads.

    At most `workers` + 1 batches wait at a time; `batches` is read no further ahead than that. An error in a batch is
    raised where that batch would have come. With 0 workers each batch is made when it is asked for.

    Left out, there are two workers when the images are pixels (each batch is spread over all cores besides), and none
    otherwise: looking up 128 vectors and captions takes 0.3 ms, handing them from one thread to another adds 0.1.

    `pin`: into page-locked memory, from which a GPU copies while it computes; the threads do that too.

    The threads end with the generator. Who may stop before its end closes it: `with contextlib.closing(ahead(…)) as
    coming`; an error's traceback would otherwise keep it alive.
    """

    def make(rows: NDArray[np.int64]) -> TrainingBatch:
        batch = examples.batch(rows, draw)
        return pin_batch(batch) if pin else batch

    if workers is None:
        workers = 2 if examples.is_slow else 0
    if workers == 0:
        for rows in batches:
            yield make(rows)
        return
    executor = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
    waiting: deque[Future[TrainingBatch]] = deque()
    coming = iter(batches)
    try:
        while True:
            for rows in islice(coming, workers + 1 - len(waiting)):
                waiting.append(executor.submit(make, rows))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
