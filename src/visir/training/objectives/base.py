"""What an objective sees, and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.settings import Settings
from visir.training.sides import Positive


@dataclass(frozen=True)
class OwnQueries:
    """The queries of a batch whose losses one of several processes computes."""

    first: int  # the row of the first one
    count: int  # how many there are, one after the other
    processes: int  # how many processes share the batch


@dataclass(frozen=True, eq=False)
class VectorPairs:
    """A batch of pairs as vectors; row i of the anchors belongs to row i of the positives."""

    anchors: Tensor  # (n, d) vectors; of length 1 in the common space of two towers
    positives: Tensor  # (n, d) vectors
    anchor_rows: Tensor  # (n,) integers, equal for positives of one anchor
    targets: Tensor | None = None  # (n, t) latent targets of the positives, or None
    tokens: Tensor | None = None  # (n, L) token ids of the positives, 0 is padding, or None
    classes: Tensor | None = None  # (n,) integers, what the positives are beyond the anchor they belong to, or None
    rows: Tensor | None = None  # (n,) integers, which pairs of the split they are, or None
    # (n, h, d) vectors of hard negatives for the anchors, on the side of the positives, or None.
    negatives: Tensor | None = None
    negative_rows: Tensor | None = None  # (n, h) integers, the anchors to which they belong; -1 is none
    # (n, h, d) vectors of hard negatives for the positives, on the side of the anchors, or None.
    anchor_negatives: Tensor | None = None
    anchor_negative_rows: Tensor | None = None  # (n, h) integers, which anchors they are
    # Those whose losses are wanted, among all n candidates. The loss is then the sum of theirs times the number of
    # processes, divided by n, so that its mean over the processes is that of the batch. None: all.
    queries: OwnQueries | None = None

    def split(self) -> VectorPairs:
        """The same, from (n, (1 + h) · d) vectors of a side that has hard negatives: those stand behind each pair's."""
        anchors, anchor_negatives = _own_and_hard(self.anchors, self.anchor_negative_rows)
        positives, negatives = _own_and_hard(self.positives, self.negative_rows)
        return replace(
            self, anchors=anchors, positives=positives, negatives=negatives, anchor_negatives=anchor_negatives
        )


def _own_and_hard(vectors: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor | None]:
    if rows is None:
        return vectors, None
    own, *hard = vectors.split(vectors.shape[1] // (1 + rows.shape[1]), dim=1)
    return own, torch.stack(hard, dim=1)


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a batch."""

    total: Tensor  # what is made small, a scalar with a graph
    # Its terms, detached, as they enter the log: "contrastive", and under the name of each auxiliary ("ltd", "itd") its
    # reconstruction loss.
    parts: Mapping[str, Tensor]


# False negatives: captions of one image that fell into the same batch.

FalseNegatives = Literal["masked", "kept"]
"""What an objective does with captions of the same image in a batch.

- "masked" (every default): such a pair is neither a positive nor a negative.
- "kept": such a pair is a negative like every other in the batch. The papers do this: neither LTD nor VSE++ looks at
  which image a caption in the batch belongs to. Ask for it to reproduce them.
"""


def false_negative_pairs(anchor_rows: Tensor) -> Tensor:
    """Find the different captions of one image."""
    # anchor_rows: (n,) the image of each caption.
    # Returns: (n, n) booleans: whether i and j are different captions of one image.
    same = anchor_rows[:, None] == anchor_rows[None, :]
    same.fill_diagonal_(False)
    return same


# Cosines and the symmetric cross-entropy over them, which several objectives share.


def cosines(pairs: VectorPairs) -> Tensor:
    """(n, n) cosines, row the image and column the text; at least in float32, whatever the towers computed in."""
    # Divided by a temperature of 0.05, the last bit of a cosine near 1 in bfloat16 (2⁻⁸) is worth 0.08 in the exponent.
    return products(pairs.anchors, pairs.positives)


def products(queries: Tensor, candidates: Tensor) -> Tensor:
    """(q, c) dot products, at least in float32."""
    with torch.autocast(queries.device.type, enabled=False):
        return precise(queries) @ precise(candidates).T


def precise(vectors: Tensor) -> Tensor:
    """Half precision to float32; everything else as it is."""
    return vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors


def symmetric_cross_entropy(logits: Tensor, anchor_rows: Tensor, false_negatives: FalseNegatives) -> Tensor:
    """The mean of two cross-entropies, along rows and along columns, where the right answer is on the diagonal."""
    if false_negatives == "masked":
        logits = logits.masked_fill(false_negative_pairs(anchor_rows), -torch.inf)
    return (cross_entropy(logits) + cross_entropy(logits.T)) / 2


def cross_entropy(logits: Tensor) -> Tensor:
    """The mean cross-entropy of the rows of (n, n or more) logits, where candidate i is the answer of query i."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


# The temperature of a softmax over cosines, fixed or learnt.

_SHARPEST = math.log(100.0)
"""The largest log(1 / τ) that a learnt temperature may have (CLIP, Radford et al. 2021, section 2.5): beyond it
training is unstable."""


@dataclass(frozen=True)
class OwnScale:
    """What a pretrained model was trained with; None where it has none."""

    temperature: float | None = None  # τ of a softmax, or the inverse of a sigmoid's scale
    bias: float | None = None  # of a sigmoid (SigLIP)

    def temperature_of(self, setting: float | Literal["own"]) -> float:
        """The temperature that a recipe asks for."""
        value = self.temperature if setting == "own" else setting
        assert value is not None, "build_objective has looked"
        return value


class Temperature(nn.Module):
    """Divides by τ > 0, which is kept as log(1 / τ) in float64."""

    # Libraries that speak of a *scale* mean 1 / τ. A learnt τ that has passed 0.01 is put back there before the next
    # batch, as CLIP's authors do; clamping inside the graph instead would cut its gradient off and it could never
    # return. With `bounded=False` it may go on (SigLIP).

    def __init__(self, start: float, *, learnt: bool, bounded: bool = True) -> None:
        super().__init__()
        self.learnt, self.bounded = learnt, bounded
        self.log_scale = nn.Parameter(torch.tensor(-math.log(start), dtype=torch.float64), requires_grad=learnt)

    @property
    def value(self) -> float:
        """τ as it stands now."""
        return math.exp(-float(self.log_scale.detach()))

    @property
    def unread(self) -> float | Tensor:
        """`value`, or on a GPU a tensor of it."""
        return self.value if self.log_scale.device.type == "cpu" else self.log_scale.detach().neg().exp()

    def forward(self, cosines: Tensor) -> Tensor:
        """The logits of a softmax: `cosines` / τ."""
        if self.learnt and self.bounded:
            with torch.no_grad():
                self.log_scale.clamp_(max=_SHARPEST)
        return cosines * self.log_scale.exp().to(cosines.dtype)


# How a reconstruction loss joins the contrastive one: as a second term, or as a constraint.

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
