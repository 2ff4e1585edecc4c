"""Weights averaged within an epoch (stochastic weight averaging)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from visir.training.moving import Moved, Moving
from visir.training.recipe import Averaging


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
