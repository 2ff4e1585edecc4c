"""Batches made ahead of the model: threads, in order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from visir.training.inputs.base import EpochRandom, TrainingBatch, TrainingData
from visir.training.inputs.pinned_memory import pin_batch


def prefetch(
    examples: TrainingData,
    batches: Iterable[NDArray[np.int64]],
    draw: EpochRandom | None = None,
    workers: int | None = None,
    *,
    pin: bool = False,
) -> Generator[TrainingBatch, None, None]:
    """Make the batches of a training ahead of the model, in their order."""
    # At most `workers` + 1 batches wait at a time; `batches` is read no further ahead than that. An error in a batch is
    # raised where that batch would have come. The threads end with the generator: close it when you stop before its end
    # (`with contextlib.closing(prefetch(…)) as batches`); an error's traceback would otherwise keep it alive.
    # workers: How many threads make batches; 0 makes each when it is needed. Left out, there are two when the examples
    # are slow (pixels, each batch of which is spread over all cores besides), and none otherwise: looking up 128
    # vectors and captions takes 0.3 ms, handing them from one thread to another adds 0.1.

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
