"""One epoch of optimisation, for any module that gives the loss of a batch of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.errors import VisirError

_NAMED = 8


class TrainingError(VisirError):
    """Training cannot go on; `ids` are the captions of the batch at which it stopped."""

    def __init__(self, message: str, *, hint: str = "", ids: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.ids = tuple(ids)


def optimiser_over(modules: Iterable[nn.Module], rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW over all trainable parameters: matrices decay towards zero, biases and scalars do not.

    A decayed bias or temperature would be pulled to a value that means nothing in particular.
    """
    parameters = [one for module in modules for one in module.parameters() if one.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [one for one in parameters if one.ndim >= 2], "weight_decay": decay},
            {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0},
        ],
        lr=rate,
        betas=(0.9, 0.98),
    )


def run_epoch(
    loss_of: Callable[[NDArray[np.int64]], Tensor],
    batches: Sequence[NDArray[np.int64]],
    optimiser: torch.optim.Optimizer,
    rate_at: Callable[[int], float],
    *,
    clip: float,
    ids: Sequence[str],
    epoch: int,
    advance: Callable[[int], None],
) -> float:
    """One step per batch of rows; returns the mean loss over the captions of the epoch.

    - `loss_of(rows)`: the loss of a batch, a scalar with a graph
    - `rate_at(step)`: the learning rate at a step of this epoch
    - `ids`: the caption ids by row, for the message when a loss is NaN or infinite: then `TrainingError` is raised
      before the weights are touched
    - `advance(n)`: called after each step with its number of captions
    """
    parameters = [one for group in optimiser.param_groups for one in group["params"]]
    total = 0.0
    for step, rows in enumerate(batches):
        loss = loss_of(rows)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise _not_finite(value, [ids[row] for row in rows], epoch, step, rate_at(step))
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()
        total += value * len(rows)
        advance(len(rows))
    return total / sum(map(len, batches))


def _not_finite(value: float, ids: list[str], epoch: int, step: int, rate: float) -> TrainingError:
    more = f", … ({len(ids)} in all)" if len(ids) > _NAMED else ""
    return TrainingError(
        f"the loss is {value} in epoch {epoch + 1}, step {step + 1} (learning rate {rate:.2g}); captions of the batch: "
        f"{', '.join(map(repr, ids[:_NAMED]))}{more}.",
        hint="look at these captions and their images; if they are sound, lower optimiser.rate or raise "
        "optimiser.warmup or objective.temperature",
        ids=ids,
    )
