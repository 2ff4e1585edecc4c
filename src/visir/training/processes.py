"""Several processes that train one model: each takes its share of every batch, all keep the same weights."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from visir.encoders.devices import pick_device
from visir.errors import ConfigurationError, VisirError, require
from visir.threads import launched

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

    def gather(self, own: Tensor, sizes: Sequence[int]) -> Tensor:
        """The rows of all processes, in the order of the processes; `sizes` says how many each has."""
        # Its backward pass gives each process the gradient of its own rows, times `count`, without another outcome:
        # every process computes the same function of the gathered rows, so each holds the whole gradient already; the
        # factor makes the mean over the processes (`GradientMean`) the sum over all rows.
        if self.count == 1:
            return own
        gathered: Tensor = _Gather.apply(own, tuple(sizes), self.rank, False)
        return gathered

    def gather_both_ways(self, own: Tensor, sizes: Sequence[int]) -> Tensor:
        """As `gather`, for functions of the gathered rows that differ from process to process."""
        # Its backward pass sums the gradients of each process's rows over all processes, which takes a message.
        if self.count == 1:
            return own
        gathered: Tensor = _Gather.apply(own, tuple(sizes), self.rank, True)
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
