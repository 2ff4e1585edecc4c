"""The optimiser over everything that is trained: its groups, their rates, their decay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from visir.errors import require
from visir.training.recipe import Optimiser

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
    return _KINDS[settings.name]([group for group in groups if group["params"]], settings)


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


def _adamw(groups: Groups, settings: Optimiser) -> torch.optim.Optimizer:
    # Fused: one pass over the memory instead of a dozen, on the CPU too.
    return torch.optim.AdamW(groups, betas=settings.betas, fused=True)


def _adam(groups: Groups, settings: Optimiser) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, betas=settings.betas, fused=True)


def _adamp(groups: Groups, settings: Optimiser) -> torch.optim.Optimizer:
    require("timm", extra="train", purpose="the optimiser AdamP")
    from timm.optim.adamp import AdamP

    optimiser: torch.optim.Optimizer = AdamP(groups, betas=settings.betas)
    return optimiser


_KINDS = {"adamw": _adamw, "adam": _adam, "adamp": _adamp}
