"""How weights move: the optimiser, its rates over time, precision, what is frozen, batch norm, averages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from visir.encoders.towers.base import Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import ConfigurationError, require
from visir.training.processes import Processes
from visir.training.recipe import Averaging, Optimiser, Regime, Schedule

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

    def step(self, optimiser: torch.optim.Optimizer) -> None:
        """Move the weights, unless a scaled gradient overflowed; adapt the scale."""
        self.scaler.step(optimiser)
        self.scaler.update()

    def widen(self, vectors: Tensor) -> Tensor:
        """Half-precision numbers in float32; others as they are."""
        return vectors.float() if vectors.dtype.itemsize < 4 else vectors

    @property
    def advice(self) -> str:
        """The end of a hint after numbers ran out of range."""
        return '; or precision = "bfloat16", whose range is that of float32' if self.is_scaled else ""


# The weights that a training moves: the state and the best epoch hold no copy of a base model under adapters.


class Moved:
    """The parameters that an optimiser moves, by their number in it; no buffers, such as a batch norm's statistics."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)

    def state(self) -> dict[str, Tensor]:
        """The tensors by number, not copied."""
        return {str(number): parameter.detach() for number, parameter in enumerate(self._parameters)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        with torch.no_grad():
            for number, parameter in enumerate(self._parameters):
                parameter.copy_(tensors[str(number)])


class Moving:
    """The state of a module without the fixed weights of models that adapters were put over."""

    # Those are read again from the base model, of which a state notes the fingerprint.

    def __init__(self, module: nn.Module) -> None:
        fixed = {
            id(weight)
            for backbone in module.modules()
            if isinstance(backbone, PretrainedBackbone) and backbone.adapter
            for weight in backbone.parameters()
            if not weight.requires_grad
        }
        named = module.named_parameters(remove_duplicate=False)
        self._module, self._fixed = module, {name for name, weight in named if id(weight) in fixed}

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, not copied."""
        return {name: tensor for name, tensor in self._module.state_dict().items() if name not in self._fixed}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        own = self._module.state_dict()
        self._module.load_state_dict({**{name: own[name] for name in self._fixed}, **tensors})


# Batch norm, whose statistics are of the rows that go through together.


class BatchStatistics:
    """The batch norms of `model`, made to see the whole batch, as the recipe means it."""

    # Across GPUs they become synchronised ones, until `release`. Where rows that belong together cannot be brought
    # together they are refused with a `ConfigurationError`: in chunks (`optimiser.chunk`), whose second pass would also
    # count every row twice; and in several processes on the CPU, for which torch has no synchronised batch norm.
    # Computing each part's own statistics instead would be another model, in silence. Batch norms that stay frozen
    # throughout depend on no batch, and neither do those of pretrained towers, which keep their running statistics.

    def __init__(self, model: nn.Module, recipe: Regime, processes: Processes, captions: int) -> None:
        self._replaced: list[tuple[nn.Module, str, nn.Module]] = []
        throughout = recipe.schedule.frozen_epochs >= recipe.optimiser.epochs
        model.train()
        norms = [norm for norm in _batch_norms(model) if not (throughout and id(norm[2]) in _given(model))]
        if not norms:
            return
        settings, count = recipe.optimiser, processes.count
        path = ", ".join(name for name, _, _ in norms[:3]) + (", …" if len(norms) > 3 else "")
        if settings.chunk is not None and settings.chunk < math.ceil(settings.batch / count):
            raise ConfigurationError(
                f"optimiser.chunk = {settings.chunk}: the towers have batch norm ({path}); its statistics would be of "
                f"{settings.chunk} captions instead of {settings.batch}.",
                hint="leave optimiser.chunk out, or the batch norm (head.batch_norm), or take several GPUs",
                code="towers-batch-norm-statistics",
            )
        if count > 1 and processes.device.type != "cuda":
            raise ConfigurationError(
                f"batch norm ({path}) in {count} processes on the CPU: each would have its own statistics.",
                hint='train in one process, or with device = "cuda", where they are synchronised',
            )
        if count > 1 and captions // math.ceil(captions / settings.batch) < count:
            raise ConfigurationError(
                f"batch norm ({path}) in {count} processes needs batches of at least {count} captions.",
                hint="launch fewer processes, or raise optimiser.batch",
            )
        if count > 1:
            for _, parent, module in norms:
                name = next(name for name, child in parent.named_children() if child is module)
                setattr(parent, name, nn.SyncBatchNorm.convert_sync_batchnorm(module))
                self._replaced.append((parent, name, module))

    def release(self) -> None:
        """Put plain batch norms back; call it before weights are loaded or moved, since both share their tensors."""
        for parent, name, module in self._replaced:
            setattr(parent, name, module)
        self._replaced.clear()


def _batch_norms(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """(path, parent, module) of every batch norm that is in training mode."""
    for path, parent in model.named_modules():
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm) and child.training:
                yield f"{path}.{name}", parent, child


def _given(model: nn.Module) -> set[int]:
    towers = [tower for tower in model.modules() if isinstance(tower, Tower)]
    return {id(part) for tower in towers for module in tower.pretrained_modules() for part in module.modules()}


# Weights averaged within an epoch (stochastic weight averaging).


def snapshot_steps(settings: Averaging, steps: int) -> frozenset[int]:
    """The steps (from 0) of an epoch after which a snapshot enters the average."""
    # `snapshots` even places over the last ⌈share · steps⌉ steps, the last step among them: 5 over the last 10 % of 100
    # steps are 91, 93, 95, 97, 99. An epoch of few steps has fewer snapshots, one after each of its last steps.
    if not settings.snapshots:
        return frozenset()
    window = min(steps, max(settings.snapshots, -int(-settings.share * steps // 1)))
    count = min(settings.snapshots, window)
    return frozenset(steps - window + (window * place) // count - 1 for place in range(1, count + 1))


class RunningMean:
    """The mean of a module's weights over snapshots (Izmailov et al. 2018, algorithm 1), its buffers with them."""

    # Averaged running statistics of batch norm belong to averaged weights only nearly; the snapshots are so close
    # together that another pass over the data to measure them, as the paper makes, is not worth its time. What is no
    # floating point number (a count of batches) is as in the last snapshot.

    def __init__(self) -> None:
        self.count = 0
        self.mean: dict[str, Tensor] = {}

    def add(self, module: Moving | Moved) -> None:
        """Take the present state in."""
        self.count += 1
        with torch.no_grad():
            for name, now in module.state().items():
                if name not in self.mean or not now.is_floating_point():
                    self.mean[name] = now.clone()
                else:
                    self.mean[name].lerp_(now, 1.0 / self.count)

    def swap_in(self, module: Moving | Moved) -> None:
        """Put the mean in the place of the present state for good, where there is one, and begin again."""
        if self.count:
            module.load(self.mean)
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.count = 0
        self.mean = {}

    @contextmanager
    def inside(self, module: Moving | Moved) -> Iterator[None]:
        """Within it, `module` has the mean's state (its own, when there is no snapshot), afterwards its own again."""
        if not self.count:
            yield
            return
        own = {name: now.clone() for name, now in module.state().items()}
        module.load(self.mean)
        try:
            yield
        finally:
            module.load(own)


# The learning rate over time, and what is trained when.


@dataclass(frozen=True)
class Timetable:
    """A schedule laid over so many epochs of so many steps."""

    # With `frozen_epochs` there are two phases. In the first, what came trained stays as it is; in the second
    # everything is tuned, the shape begins anew at `tuned_rate` times the rate, without another warm-up: the moments
    # are warm.

    schedule: Schedule
    epochs: int
    steps_per_epoch: int

    def is_frozen(self, epoch: int) -> bool:
        """Whether what came trained is held fixed in this epoch (from 0)."""
        return epoch < self.schedule.frozen_epochs

    def factor(self, epoch: int, step: int) -> float:
        """What the peak learning rate is multiplied by at a step (from 0) of an epoch (from 0)."""
        frozen = min(self.schedule.frozen_epochs, self.epochs)
        if frozen and epoch >= frozen:
            return self.schedule.tuned_rate * self._shape(epoch - frozen, step, self.epochs - frozen, 0)
        epochs = frozen or self.epochs
        return self._shape(epoch, step, epochs, min(self.warmup_steps, epochs * self.steps_per_epoch))

    @property
    def warmup_steps(self) -> int:
        """How many steps the warm-up has: ⌈share · all steps⌉, or the number in the recipe."""
        warmup = self.schedule.warmup
        return math.ceil(warmup * self.epochs * self.steps_per_epoch if warmup < 1 else warmup)

    def _shape(self, epoch: int, step: int, epochs: int, rising: int) -> float:
        """Linear from 1/w to 1 over the first w steps, then the shape, which would reach its end one step too late."""
        # Cosine: half a period (Loshchilov & Hutter 2017, eq. 5, without restarts). Per epoch, all steps of an epoch
        # have the value of its first one: ½ (1 + cos(π e / E)) in epoch e of E, from 0, without a warm-up.
        now = epoch * self.steps_per_epoch + step
        if now < rising:
            return (now + 1) / rising
        if self.schedule.per == "epoch":
            now = max(rising, epoch * self.steps_per_epoch)
        gone = (now - rising) / (epochs * self.steps_per_epoch - rising)
        match self.schedule.shape:
            case "cosine":
                return 0.5 * (1.0 + math.cos(math.pi * gone))
            case "linear":
                return 1.0 - gone
            case "step":
                return float(self.schedule.factor ** (epoch // self.schedule.step_epochs))
            case "constant":
                return 1.0


# What came trained and is held fixed for a while.


class Freezing:
    """The modules that came trained (`Learner.pretrained`), as they are when this is built."""

    # Parameters that require no gradient then never will: they are somebody else's decision.

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.modules = list(modules)
        self._parameters = [
            parameter for module in self.modules for parameter in module.parameters() if parameter.requires_grad
        ]

    def train(self, module: nn.Module, *, frozen: bool) -> None:
        """Bring `module`, which holds the towers, into training mode."""
        # Frozen modules get no gradient and stay in evaluation mode: their batch norms keep the statistics that they
        # came with, and dropout within them is off.
        module.train()
        for parameter in self._parameters:
            parameter.requires_grad_(not frozen)
        if frozen:
            for pretrained in self.modules:
                pretrained.eval()

    def check_trainable(self, module: nn.Module, frozen_epochs: int) -> None:
        """Raise `ConfigurationError` when there is nothing to train in `module`, or nothing while these are frozen."""
        moving = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
        if not moving:
            raise ConfigurationError(
                "there is nothing to train: both sides are fixed, and so is the objective.",
                hint="give a side a head (head = { identity = false }), or tune its encoder",
            )
        if frozen_epochs and moving <= {id(parameter) for parameter in self._parameters}:
            raise ConfigurationError(
                f"schedule.frozen_epochs = {frozen_epochs}: nothing is left to train while what came trained is fixed.",
                hint="--set schedule.frozen_epochs=0, or give a side a head (head = { identity = false })",
            )

    def thaw(self) -> None:
        """Let everything be trained again that could be."""
        for parameter in self._parameters:
            parameter.requires_grad_(True)
