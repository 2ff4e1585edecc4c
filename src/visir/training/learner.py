"""What a training needs: a recipe, a precision, and a model with the losses it learns from and how it is judged."""

from __future__ import annotations

import atexit
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, distributed, nn

from visir.encoders.devices import pick_device
from visir.encoders.towers.base import Inputs
from visir.errors import ConfigurationError, VisirError, require
from visir.threads import launched
from visir.training.inputs.base import EpochRandom, Mined, Side, TrainingData
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.recipe import Optimiser

# The optimiser over everything that is trained: its groups, their rates, their decay.

Groups = list[dict[str, Any]]


def build_optimiser(
    parts: Mapping[str, nn.Module], settings: Optimiser, rates: Mapping[str, float]
) -> torch.optim.Optimizer:
    """One optimiser over the parameters of `parts` that require a gradient now, each part at its own peak rate."""
    # Matrices decay towards zero, biases and scalars do not: a decayed bias or temperature would be pulled to a value
    # that means nothing in particular. Decay is decoupled in AdamW and AdamP; in Adam it is part of the gradient, as in
    # `torch.optim.Adam`. What is frozen for a while stays in its group and is passed over while it has no gradient, so
    # that freezing changes no group.
    groups: Groups = []
    seen: set[int] = set()
    for name, module in parts.items():
        fresh = [
            parameter for parameter in module.parameters() if parameter.requires_grad and id(parameter) not in seen
        ]
        seen.update(map(id, fresh))
        matrices = [parameter for parameter in fresh if parameter.ndim >= 2]
        others = [parameter for parameter in fresh if parameter.ndim < 2]
        peak = rates.get(name, settings.rate)
        groups += [
            {"params": matrices, "weight_decay": settings.decay, "lr": peak, "peak": peak},
            {"params": others, "weight_decay": 0.0, "lr": peak, "peak": peak},
        ]
    groups = [group for group in groups if group["params"]]
    if settings.name == "adamp":
        require("timm", extra="train", purpose="the optimiser AdamP")
        from timm.optim.adamp import AdamP

        adamp: torch.optim.Optimizer = AdamP(groups, betas=settings.betas)
        return adamp
    # Fused: one pass over the memory instead of a dozen, on the CPU too.
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(groups, betas=settings.betas, fused=True)


def set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Every group at `factor` times its peak."""
    for group in optimiser.param_groups:
        group["lr"] = factor * group["peak"]


def moments(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments by the number of their parameter: "0.exp_avg", …; counts kept as integers are int64."""
    state = optimiser.state_dict()["state"]
    return {
        f"{number}.{key}": value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.int64)
        for number, values in state.items()
        for key, value in values.items()
    }


def restore_moments(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `moments` took; learning rates are the schedule's, not the state's."""
    state: dict[int, dict[str, Tensor | int]] = {}
    parameters = list(parameters_of(optimiser))
    for name, tensor in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = int(tensor) if tensor.dtype == torch.int64 else tensor
        if tensor.shape == parameters[int(number)].shape:
            # In the memory layout of its weight (channels last, of a convolution): a fused step walks through the
            # memory of both side by side and looks at no strides.
            state[int(number)][key] = torch.empty_like(parameters[int(number)], dtype=tensor.dtype).copy_(tensor)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def parameters_of(optimiser: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Everything that the optimiser may move."""
    return (parameter for group in optimiser.param_groups for parameter in group["params"])


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


E = TypeVar("E", bound=TrainingData)

# Mixed precision: the towers' forward pass in half the bits, everything else in float32.

Name = Literal["float32", "bfloat16", "float16"]


class Precision:
    """How the towers compute."""

    # "float32": as the weights are. "bfloat16", "float16": matrix products in it (`torch.autocast`), the weights, their
    # moments, the vectors' norms and the objective in float32. float16 has a narrow range, so its losses are scaled up
    # before the backward pass (Micikevicius et al. 2018, section 3.2); steps whose gradient overflows are passed over
    # and the scale is halved, which happens at the beginning of a training. float16 needs CUDA.

    def __init__(self, name: Name, device: torch.device) -> None:
        if name == "float16" and device.type != "cuda":
            raise ConfigurationError(
                f'precision: "float16" needs CUDA, and this trains on {device.type!r}.',
                hint='precision = "bfloat16" computes here too',
                code="float16-needs-cuda-trains",
            )
        self.name, self.device = name, device
        self.is_scaled = name == "float16"
        # It does nothing where losses are not scaled.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.is_scaled)

    def autocast(self) -> AbstractContextManager[Any]:
        """The context of the towers' forward pass."""
        if self.name == "float32":
            return torch.autocast(self.device.type, enabled=False)
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def widen(self, vectors: Tensor) -> Tensor:
        """Half-precision numbers in float32; others as they are."""
        return vectors.float() if vectors.dtype.itemsize < 4 else vectors

    @property
    def advice(self) -> str:
        """The end of a hint after numbers ran out of range."""
        return '; or precision = "bfloat16", whose range is that of float32' if self.is_scaled else ""


class Learner(nn.Module, ABC, Generic[E]):
    """A model in training. `visir.training.fit` trains any of them.

    A step has two halves, so that a large batch can go through the model in chunks and be shared by processes:
    `vectors` brings each side of a chunk into a space, `losses` compares the vectors of the whole batch.

    Attributes:
        precision: Of the forward pass; known from `prepare` on.
        advice: What to lower or raise when numbers run out of range, for the hint of an error.
    """

    precision: Precision
    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup"

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The weights that validation judges and the checkpoint keeps.

        What else this module holds (an objective with weights of its own) is trained and saved in the state, and is no
        part of the result.
        """

    def prepare(self, precision: Precision) -> None:
        """Take note of how the training computes; called once, with the weights on their device.

        Raises:
            ConfigurationError: This model cannot be trained so.
        """
        self.precision = precision

    @abstractmethod
    def parts(self) -> Mapping[str, nn.Module]:
        """What is trained, by the name under which a recipe gives it a learning rate of its own (`Regime.rates`).

        A weight that is in several parts belongs to the first.
        """

    @property
    def local_loss(self) -> bool:
        """Whether each of several processes computes the losses of its own pairs only, among everyone's vectors."""
        return False

    @property
    def pretrained(self) -> Sequence[nn.Module]:
        """The modules that came trained, and which `schedule.frozen_epochs` holds fixed for a while."""
        return ()

    def at_step(self, epoch: int, step: int) -> None:
        """Take note of the place of the step that comes: epoch and step within it, both from 0."""

    def mine(self, train: Any, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the model finds in the training data as it is now; see `mining.search`."""
        raise NotImplementedError

    @abstractmethod
    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """(n, d) vectors of one side's inputs, which are on the device."""

    @abstractmethod
    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """The losses of a batch.

        Args:
            pairs: Those of this process.
            everyone: Those of all processes; None when there is one.
            weight: This process's share of the pairs, times the number of processes.
        """

    def after_step(self, parts: Mapping[str, float]) -> None:
        """Move what the optimiser does not: `parts` are those of the losses, averaged over the update."""

    @abstractmethod
    def facts(self) -> Mapping[str, float | Tensor]:
        """What moves besides the weights, for the log and the curve: numbers, or tensors of one number each that are
        still on the device; they are read together with the losses."""

    @abstractmethod
    def validate(self, examples: E) -> dict[str, float]:
        """The figures of a split; `selection.keep` names the one that chooses the epoch."""
