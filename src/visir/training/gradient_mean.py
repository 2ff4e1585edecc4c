"""Gradients averaged over the processes, in messages that travel while the backward pass computes the next ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from visir.errors import VisirError

BUCKET = 1 << 23
"""Numbers in a message: one message for each weight would pay its delay hundreds of times."""


class GradientMean:
    """Replaces every gradient by its mean over the processes."""

    # Gradients travel in buckets of about `BUCKET` numbers, from the last weight to the first, which is about the order
    # in which a backward pass finishes them. All processes send the same buckets in the same order; a weight has a
    # gradient in all of them or in none. The sums are those of gradients that are sent after the backward pass: with
    # two processes to the bit, with more up to the order in which the library adds them. The buckets of an update are
    # in memory together, as large as the gradients.

    def __init__(self, weights: Sequence[Tensor], count: int) -> None:
        self._count = count
        self._buckets = list(_buckets(reversed(weights))) if count > 1 else []
        self._bucket_of = {id(weight): number for number, bucket in enumerate(self._buckets) for weight in bucket}
        self._open: list[int] = []
        self._idle: set[int] = set()
        self._late: list[Tensor] = []
        self._on_their_way: list[tuple[Any, Tensor, list[Tensor]]] = []

    @property
    def sent(self) -> int:
        """How many buckets of this update are on their way."""
        return len(self._on_their_way)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Within it runs the last backward pass of an update; a bucket is sent when it has all its gradients."""
        weights = [weight for bucket in self._buckets for weight in bucket if weight.requires_grad]
        # What had no gradient in the last update (a layer that nothing uses) is not waited for.
        self._open = [0] * len(self._buckets)
        for weight in weights:
            self._open[self._bucket_of[id(weight)]] += id(weight) not in self._idle
        hooks = [weight.register_post_accumulate_grad_hook(self._is_there) for weight in weights]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def finish(self) -> None:
        """Send what was not sent in the backward pass, and wait for the means of all."""
        while self.sent < len(self._buckets):
            self._send(self._buckets[self.sent])
        if self._late:
            self._send(self._late)
        for message, flat, gradients in self._on_their_way:
            message.wait()
            flat /= self._count
            means = flat.split([part.numel() for part in gradients]) if gradients else ()
            for gradient, mean in zip(gradients, means, strict=True):
                gradient.copy_(mean.view_as(gradient))
        weights = [weight for bucket in self._buckets for weight in bucket]
        self._idle = {id(weight) for weight in weights if weight.requires_grad and weight.grad is None}
        self._late.clear()
        self._on_their_way.clear()

    def _is_there(self, weight: Tensor) -> None:
        number = self._bucket_of[id(weight)]
        if id(weight) in self._idle:
            if number < self.sent:
                self._late.append(weight)
            return
        if number < self.sent:
            raise VisirError(
                "a weight got a part of its gradient after the gradient was sent to the other processes.",
                hint="train in one process, or in chunks (optimiser.chunk), whose gradients are sent at the end",
            )
        self._open[number] -= 1
        # In this order in every process: messages are told apart by nothing else.
        while self.sent < len(self._buckets) and self._open[self.sent] <= 0:
            self._send(self._buckets[self.sent])

    def _send(self, weights: Sequence[Tensor]) -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        # A message of one number where there are none: all processes count the same messages.
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]) if gradients else weights[0].new_zeros(1)
        self._on_their_way.append((distributed.all_reduce(flat, async_op=True), flat, gradients))


def _buckets(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The weights of each type of number, in order, in lists of about `BUCKET` numbers."""
    open_ones: dict[torch.dtype, list[Tensor]] = {}
    for weight in weights:
        bucket = open_ones.setdefault(weight.dtype, [])
        bucket.append(weight)
        if sum(part.numel() for part in bucket) >= BUCKET:
            yield open_ones.pop(weight.dtype)
    yield from open_ones.values()
