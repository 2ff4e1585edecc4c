"""How a reconstruction loss joins the contrastive one: as a second term, or as a constraint."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from visir.training.settings import Settings
from visir.training.sides import Positive

Join = Literal["dual", "constraint"]

Clamp = Literal["reading", "step"]
"""Where a multiplier is put into [0, 100]: whenever it is read, or itself after every step. See `Constraint`."""

_RATE, _MOMENTUM, _DAMPENING = 5e-3, 0.9, 0.9
_FIRST, _CEILING = 1.0, 100.0


class JoinSettings(Settings):
    """How an auxiliary loss joins the contrastive one; see `Dual` and `Constraint`."""

    # As a "constraint" or as a "dual" loss; `bound` is the constraint's η, `beta` the dual loss's β.
    join: Join = "constraint"
    beta: Positive = 1.0
    bound: Positive
    clamp: Clamp = "reading"  # the constraint's λ is put into [0, 100] at "reading" (as published) or at each "step"


class Dual(nn.Module):
    """A second term: β · L_rec (latent target decoding, eq. 7)."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss."""
        return self.beta * reconstruction


class Constraint(nn.Module):
    """A constraint L_rec ≤ η by a Lagrange multiplier: λ · (L_rec / η − 1) (latent target decoding, eq. 8 and 9)."""

    # The weights descend, λ *ascends*: after every update of the weights, `ascend` moves the multiplier along its
    # gradient L_rec / η − 1 by SGD with rate 0.005, momentum 0.9 and dampening 0.9, from 1 on, exactly as
    # `torch.optim.SGD(…, maximize=True)` does (the first gradient enters its velocity undampened). λ ∈ [0, 100].
    # The paper says "bounded between 0 and 100"; there are two readings, and they train differently:
    # - `clamp="reading"` (default): the multiplier moves freely; λ is its value put into the interval where it is read.
    #   The released code does this, and the published trajectories show it: replayed over the published reconstruction
    #   losses (every 100th step, interpolated) it follows the published λ of η = 0.2 with correlation 0.9996, the other
    #   reading with 0.33. While a constraint is met the multiplier sinks far below zero, and λ stays 0 after L_rec has
    #   gone back above η until it has climbed out: in the published run with η = 0.2, λ is 0 for 95 % of training. In
    #   effect it is a curriculum, reconstruction first and contrast alone later.
    # - `clamp="step"`: the multiplier itself is put back after each step (projected ascent, what "bounded" says). λ
    #   answers within a step when L_rec goes above η, and L_rec is held at η to the end.
    # Multiplier, velocity and the number of steps are buffers in float64: they travel with `state_dict`.

    multiplier: Tensor
    velocity: Tensor
    steps: Tensor

    def __init__(self, bound: float, *, clamp: Clamp = "reading") -> None:
        super().__init__()
        self.bound = bound
        self.clamp = clamp
        self.register_buffer("multiplier", torch.tensor(_FIRST, dtype=torch.float64))
        self.register_buffer("velocity", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("steps", torch.tensor(0))

    @property
    def value(self) -> float:
        """λ as it stands now."""
        return float(self._bounded())

    @property
    def unread(self) -> float | Tensor:
        """`value`, or on a GPU a tensor of it."""
        return self.value if self.multiplier.device.type == "cpu" else self._bounded()

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss; λ gets no gradient."""
        return self._bounded().to(reconstruction.dtype) * (reconstruction / self.bound - 1)

    def ascend(self, reconstruction: float) -> None:
        """One step of λ, on the reconstruction loss of the batch that the weights have just learnt from."""
        gradient = reconstruction / self.bound - 1
        moving = self.velocity.mul(_MOMENTUM).add(gradient, alpha=1 - _DAMPENING)
        self.velocity.copy_(torch.where(self.steps == 0, gradient, moving))
        self.multiplier.add_(self.velocity, alpha=_RATE)
        if self.clamp == "step":
            self.multiplier.clamp_(0.0, _CEILING)
        self.steps += 1

    def _bounded(self) -> Tensor:
        return self.multiplier.clamp(0.0, _CEILING)
