"""Put documents into an engine: a few requests at once, and another one only when the server has taken one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from visir.progress import Progress
from visir.retrieval.remote.engine import Engine
from visir.retrieval.remote.points import Point


def upload(engine: Engine, batches: Iterator[list[Point]], total: int) -> None:
    """Put all documents in, `engine.uploads` batches at once, and settle."""
    # Batches are made while others are sent. At most `engine.uploads` of them are in memory besides the one being made:
    # documents are read no faster than the server takes them. After a fault no further batch is sent, and those under
    # way are waited for.
    with Progress("into the engine", total, "documents") as advance:
        if engine.uploads == 1:
            for batch in batches:
                engine.put(batch)
                advance(len(batch))
        else:
            with ThreadPoolExecutor(engine.uploads, "upload") as pool:
                for size in _sent(pool, engine, batches):
                    advance(size)
    engine.settle()


def _sent(pool: ThreadPoolExecutor, engine: Engine, batches: Iterator[list[Point]]) -> Iterator[int]:
    """Yield the size of each batch that was sent, oldest first."""
    waiting: deque[tuple[Future[None], int]] = deque()
    for batch in batches:
        if len(waiting) == engine.uploads:
            yield _finished(waiting)
        waiting.append((pool.submit(engine.put, batch), len(batch)))
    while waiting:
        yield _finished(waiting)


def _finished(waiting: deque[tuple[Future[None], int]]) -> int:
    """Wait for the oldest batch."""
    under_way, size = waiting.popleft()
    under_way.result()
    return size
