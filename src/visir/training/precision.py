"""Mixed precision: the towers' forward pass in half the bits, everything else in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch import Tensor

from visir.errors import ConfigurationError

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
        self._scaler = torch.amp.GradScaler(device.type, enabled=self.is_scaled)

    def autocast(self) -> AbstractContextManager[Any]:
        """The context of the towers' forward pass."""
        if self.name == "float32":
            return torch.autocast(self.device.type, enabled=False)
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def widen(self, vectors: Tensor) -> Tensor:
        """Half-precision numbers in float32; others as they are."""
        return vectors.float() if vectors.dtype.itemsize < 4 else vectors

    def scale(self, loss: Tensor) -> Tensor:
        """The loss as it enters the backward pass."""
        return self._scaler.scale(loss)

    def unscale(self, optimiser: torch.optim.Optimizer) -> None:
        """Bring the gradients back to their own scale."""
        if self.is_scaled:
            self._scaler.unscale_(optimiser)

    def step(self, optimiser: torch.optim.Optimizer) -> None:
        """Move the weights, unless a scaled gradient overflowed; adapt the scale."""
        self._scaler.step(optimiser)
        self._scaler.update()

    @property
    def factor(self) -> float:
        """What losses are multiplied by."""
        return self._scaler.get_scale()

    @property
    def advice(self) -> str:
        """The end of a hint after numbers ran out of range."""
        return '; or precision = "bfloat16", whose range is that of float32' if self.is_scaled else ""

    def state(self) -> dict[str, Any]:
        """What must be kept so that a training goes on exactly: plain values, empty unless losses are scaled."""
        return self._scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        if self.is_scaled:
            self._scaler.load_state_dict(state)
