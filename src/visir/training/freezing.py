"""What came trained and is held fixed for a while."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from visir.errors import ConfigurationError


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
