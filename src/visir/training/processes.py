"""The processes that train one model: each takes its share of every batch, all keep the same weights."""

from __future__ import annotations

import atexit
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from visir.encoders.devices import pick_device
from visir.errors import ConfigurationError, VisirError, require
from visir.threads import launched
from visir.training.similarities import OwnQueries, VectorPairs

# Several processes that train one model: each takes its share of every batch, all keep the same weights.

T = TypeVar("T")
_PATIENCE = timedelta(hours=1)
"""How long a process waits for another one: longer than a validation by the first alone, shorter than for ever."""


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int  # its number, from 0
    count: int  # how many there are
    device: torch.device  # where it computes

    @classmethod
    def join(cls, device: str) -> Processes:
        """Join the processes that were launched together; a process launched alone is the only one."""
        # Several processes: each on its own GPU (NCCL), or all on the CPU (gloo).
        rank, count = launched()
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if count == 1:
            return cls(0, 1, torch.device(pick_device(device)))
        if device not in ("cpu", "cuda"):
            raise ConfigurationError(
                f"device: {device!r} for {count} processes; each takes a GPU of its own.",
                hint='device = "cuda" for a GPU each, "cpu" for none',
                code="one-device-for-many",
            )
        pick_device(device)
        require("accelerate", extra="train", purpose="training in several processes")
        from accelerate import PartialState

        # PartialState rather than Accelerator: the latter's precision is one for the whole life of a process.
        began = not distributed.is_initialized()
        state = PartialState(cpu=device == "cpu", timeout=_PATIENCE)
        if began:
            atexit.register(_part)
        # accelerate says "cpu:0", which other libraries (onnxruntime's encoders) do not know as the CPU.
        return cls(rank, count, torch.device("cpu") if device == "cpu" else state.device)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def gather(self, own: Tensor, sizes: Sequence[int], *, both_ways: bool = False) -> Tensor:
        """The rows of all processes, in the order of the processes; `sizes` says how many each has."""
        # Its backward pass gives each process the gradient of its own rows, times `count`, without another outcome:
        # every process computes the same function of the gathered rows, so each holds the whole gradient already; the
        # factor makes the mean over the processes (`GradientMean`) the sum over all rows. `both_ways`, for functions of
        # the gathered rows that differ from process to process, it sums the gradients of each process's rows over all
        # processes, which takes a message.
        if self.count == 1:
            return own
        gathered: Tensor = _Gather.apply(own, tuple(sizes), self.rank, both_ways)
        return gathered

    def sum(self, values: Tensor) -> Tensor:
        """The sum of `values` over the processes."""
        if self.count > 1:
            distributed.all_reduce(values)
        return values

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the first process's."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    def run_on_first(self, work: Callable[[], T]) -> T:
        """Run `work` in the first process and give its result to all."""
        if self.count == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.is_first:
            try:
                outcome[0] = work()
            except VisirError as fault:
                outcome[1] = fault.args[0]
                distributed.broadcast_object_list(outcome, 0)
                raise
        distributed.broadcast_object_list(outcome, 0)
        if outcome[1] is not None:
            raise VisirError(f"the first of {self.count} processes stopped: {outcome[1]}")
        result: T = outcome[0]
        return result


class _Gather(torch.autograd.Function):
    """Not torch's own `distributed.nn.functional.all_gather`: that one is deprecated, and says so to every user."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, sizes: tuple[int, ...], rank: int, both_ways: bool) -> Tensor:
        ctx.sizes, ctx.rank, ctx.both_ways = sizes, rank, both_ways
        # Zeros below the rows: all processes must send equally much.
        padded = torch.cat([own, own.new_zeros((max(sizes) - len(own), *own.shape[1:]))])
        every = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(every, padded)
        return torch.cat([rows[:size] for rows, size in zip(every, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        if not ctx.both_ways:
            return gradients[0].split(ctx.sizes)[ctx.rank] * len(ctx.sizes), None, None, None
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total.split(ctx.sizes)[ctx.rank], None, None, None


def _part() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


# Memory: what a process took at most, and what a forward pass keeps for the backward pass.


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most so far: "process" (where the system tells), "cuda" (where there is
    one)."""
    # A child's count begins with what its parent held when it was forked.
    peaks: dict[str, int] = {}
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks["process"] = peak if sys.platform == "darwin" else 1024 * peak  # bytes there, kilobytes elsewhere
    if torch.cuda.is_initialized():
        peaks["cuda"] = torch.cuda.max_memory_allocated()
    return peaks


def kept_bytes(forward: Callable[[], object], weights: Iterable[Tensor]) -> int:
    """Bytes of the tensors that `forward` leaves for its backward pass, `weights` (which are there anyway) not
    counted."""
    # Counted through `torch.autograd.graph.saved_tensors_hooks`, so whatever the modules are. A tensor that is kept by
    # several operations counts once.
    weight_storages = {weight.untyped_storage().data_ptr() for weight in weights}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weight_storages:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = forward()  # held until all is counted: freed memory would be used again under the same address
    del alive
    return sum(sizes.values())


# Batches: every caption once per epoch, with its image; and how a batch is shared and cut.

Rows = NDArray[np.int64]


def batches_of_epoch(
    captions: int, size: int, *, seed: int, epoch: int, anchors: Rows | None = None, per_image: int = 1
) -> list[Rows]:
    """The rows of `captions` captions, shuffled and cut into ceil(captions / size) batches."""
    # The order depends on the seed and the epoch alone, so that an epoch can be run again after an interruption. The
    # sizes differ by at most one: no short last batch, whose few negatives would make an easy step, and none left out.
    # anchors: (captions,) the image of each; needed for `per_image`.
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(captions)
    if per_image > 1 and anchors is not None:
        order = _grouped(order, anchors[order], per_image, generator)
    return np.array_split(order, math.ceil(captions / size))


def _grouped(order: Rows, anchors: Rows, size: int, generator: np.random.Generator) -> Rows:
    """The rows in groups of at most `size` of one anchor; the groups in random order."""
    by_anchor = np.argsort(anchors, kind="stable")
    _, first, counts = np.unique(anchors[by_anchor], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, counts)  # within the captions of an anchor, in shuffled order
    starts = np.flatnonzero(place % size == 0)
    group = np.cumsum(place % size == 0) - 1
    rank = generator.permutation(len(starts))
    grouped: Rows = order[by_anchor][np.argsort(rank[group], kind="stable")]
    return grouped


def steps_per_epoch(captions: int, size: int, accumulate: int = 1) -> int:
    """How many updates an epoch has, each over at most `accumulate` batches of at most `size` captions."""
    return math.ceil(math.ceil(captions / size) / accumulate)


def steps_of_epoch(
    captions: int,
    size: int,
    accumulate: int,
    *,
    seed: int,
    epoch: int,
    anchors: Rows | None = None,
    per_image: int = 1,
) -> list[list[Rows]]:
    """The batches of each update of an epoch (see `batches_of_epoch`); their numbers differ by at most one."""
    batches = batches_of_epoch(captions, size, seed=seed, epoch=epoch, anchors=anchors, per_image=per_image)
    cuts = np.array_split(np.arange(len(batches)), steps_per_epoch(captions, size, accumulate))
    return [[batches[number] for number in cut] for cut in cuts]


@dataclass(frozen=True, eq=False)
class Share:
    """A batch as one of several processes sees it."""

    rows: Rows  # of the whole batch, in order
    sizes: tuple[int, ...]  # how many of them each process takes, one after the other
    own: int  # how many of this process's rows count
    # The rows that go through this process's towers, cut; never empty. A process for which nothing is left (a batch of
    # fewer captions than processes) takes the batch's first caption, and none of it counts.
    chunks: tuple[Rows, ...]
    is_cut: bool  # whether the rows of some process, this one or another, go through the towers in several chunks

    @classmethod
    def of(cls, rows: Rows, *, process: int = 0, processes: int = 1, chunk: int | None = None) -> Share:
        """The contiguous share of `process` (from 0), in chunks of nearly equal size, at most `chunk`."""
        parts = np.array_split(rows, processes)
        mine = parts[process] if len(parts[process]) else rows[:1]
        chunks = np.array_split(mine, math.ceil(len(mine) / chunk) if chunk else 1)
        is_cut = chunk is not None and len(parts[0]) > chunk  # the first is the longest
        return cls(rows, tuple(map(len, parts)), len(parts[process]), tuple(chunks), is_cut)

    def first(self, process: int) -> int:
        """Where in the batch the rows of a process begin."""
        return sum(self.sizes[:process])


def pairs_of_all(
    pairs: VectorPairs,
    processes: Processes,
    sizes: Sequence[int],
    *,
    local: bool,
    labels: tuple[Tensor, Tensor | None] | None = None,
) -> VectorPairs:
    """The pairs of all processes, whose vectors are each other's negatives, from those of this one before `split`."""
    # Of `pairs` the first `sizes[rank]` count. `labels`: the anchors and classes of all pairs, where they are known
    # here; otherwise the anchors are gathered too.
    rank = processes.rank
    both = torch.cat([pairs.anchors, pairs.positives], dim=1)[: sizes[rank]]
    widths = [pairs.anchors.shape[1], pairs.positives.shape[1]]
    anchors, positives = processes.gather(both, sizes, both_ways=local).split(widths, dim=1)
    anchor_rows, classes = labels or (processes.gather(pairs.anchor_rows[: sizes[rank]], sizes), None)
    device = processes.device
    hard = [
        rows if rows is None else processes.gather(rows[: sizes[rank]], sizes)
        for rows in (pairs.anchor_negative_rows, pairs.negative_rows)
    ]
    return VectorPairs(
        anchors,
        positives,
        anchor_rows.to(device, non_blocking=True),
        classes=None if classes is None else classes.to(device, non_blocking=True),
        negative_rows=hard[1],
        anchor_negative_rows=hard[0],
        queries=OwnQueries(sum(sizes[:rank]), sizes[rank], processes.count) if local else None,
    )


# Gradients averaged over the processes, in messages that travel while the backward pass computes the next ones.

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
