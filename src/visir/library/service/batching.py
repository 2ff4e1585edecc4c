"""Micro-batches: requests that wait are encoded and searched together, on a thread of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from visir.serving.refusals import busy

Input = TypeVar("Input")
Output = TypeVar("Output")

Work = Callable[[Sequence[Input]], Sequence[Output | Exception]]
"""From inputs to outputs, in the same order: an exception for an input that cannot be answered."""


class _WaitingRequest(Generic[Input, Output]):
    """An input that waits, and the future for its output."""

    __slots__ = ("future", "input", "loop")

    def __init__(self, input: Input) -> None:
        self.input = input
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Output] = self.loop.create_future()


class Batcher(Generic[Input, Output]):
    """Hands waiting inputs to `work`, up to `size` at once, and gives each its own output."""

    # The thread takes what has come in as soon as it is idle: an input that comes alone does not wait for others. While
    # it works, inputs gather by themselves; that is where batches come from. Clients that just got an answer tend to
    # ask again at once, so behind a batch of several the thread waits up to `wait` seconds for as many as there were
    # before.
    # `work` reports what is wrong with one input by an exception in its place. Where it raises one instead, the inputs
    # of the batch are tried one by one, so that only the one at fault gets the error.
    # There is one thread, because the work inside is matrix products that release the interpreter's lock: a second
    # would only compete for the cores. It ends with the process, or at `close`.

    def __init__(
        self,
        work: Work[Input, Output],
        *,
        name: str,
        size: int,
        queue: int,
        wait: float,
    ) -> None:
        self._work, self._size, self._limit, self._wait = work, size, queue, wait
        self._queue: deque[_WaitingRequest[Input, Output]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._last = 1
        self._seconds = 0.05  # of the last batches: what a full queue says in Retry-After
        self._thread = threading.Thread(target=self._run, name=f"visir-{name}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    async def ask(self, inputs: Sequence[Input]) -> list[Output]:
        """The answers to these, in order. `HttpError` (503) when the queue is full or the service is closing."""
        # Whoever is cancelled while waiting (the client has gone, the time is over) gives up the place at once.
        waiting = [_WaitingRequest[Input, Output](input) for input in inputs]
        with self._changed:
            if self._closed:
                raise busy("the service is closing.", 5, "another instance may answer")
            if len(self._queue) + len(waiting) > self._limit:
                after = max(1, round(len(self._queue) / self._size * self._seconds))
                raise busy(f"{len(self._queue)} searches are waiting already.", after)
            self._queue.extend(waiting)
            self._changed.notify()
        try:
            return [await request.future for request in waiting]
        except BaseException:
            self._forget(waiting)
            raise

    def close(self) -> None:
        """Answer what waits, take nothing new, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, cancelled: Sequence[_WaitingRequest[Input, Output]]) -> None:
        with self._changed:
            for request in cancelled:
                request.future.cancel()
                if request in self._queue:
                    self._queue.remove(request)

    def _take(self) -> list[_WaitingRequest[Input, Output]]:
        """What is to be answered together; nothing when the batcher was closed and all is done."""
        with self._changed:
            while True:
                while not self._queue and not self._closed:
                    self._last = 1  # idle: the next one is not kept waiting
                    self._changed.wait()
                if self._last > 1 and not self._closed:
                    hoped, until = min(self._last, self._size), time.monotonic() + self._wait
                    while len(self._queue) < hoped and (left := until - time.monotonic()) > 0:
                        self._changed.wait(left)
                if self._queue or self._closed:  # everyone may have gone away during that wait
                    return [self._queue.popleft() for _ in range(min(self._size, len(self._queue)))]

    def _run(self) -> None:
        while batch := self._take():
            began = time.monotonic()
            results = self._answers(batch)
            self._last = len(batch)
            self._seconds = 0.8 * self._seconds + 0.2 * (time.monotonic() - began)
            loops = {request.loop for request in batch}
            for loop in loops:
                mine = [
                    (request, result) for request, result in zip(batch, results, strict=True) if request.loop is loop
                ]
                try:
                    loop.call_soon_threadsafe(_deliver, mine)
                except RuntimeError:  # that loop has ended, and who waited in it with it
                    continue

    def _answers(self, batch: Sequence[_WaitingRequest[Input, Output]]) -> list[Output | Exception]:
        try:
            return list(self._work([request.input for request in batch]))
        except Exception as fault:
            if len(batch) == 1:
                return [fault]
            return [self._answers([request])[0] for request in batch]


def _deliver(answered: Sequence[tuple[_WaitingRequest[Input, Output], Output | Exception]]) -> None:
    for request, result in answered:
        if request.future.done():
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)
