"""InfoNCE: a caption should find its image among the batch's images, and the image its caption among the captions."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.objectives.siblings import Siblings
from visir.training.settings import Settings
from visir.training.sides import Positive


class InfoNCESettings(Settings):
    """Softmax over the negatives of a batch; see `InfoNCE`.

    - `temperature`: τ; "own" is the pretrained model's (CLIP comes with a learnt one)
    - `learn_temperature`: go on learning it
    - `siblings`: other captions of the same image in a batch are left "apart", or "negatives"
    """

    name: Literal["infonce"] = "infonce"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    siblings: Siblings = "apart"


_SHARPEST = math.log(100.0)
"""The largest log(1 / τ) that a learnt temperature may have (CLIP, Radford et al. 2021, section 2.5): beyond it
training is unstable."""


class InfoNCE(nn.Module):
    """Symmetric cross-entropy over the negatives of a batch (latent target decoding, eq. 1; thesis, appendix 4.E.1).

    With unit vectors z_I (n, d) and z_C (n, d), row i of one matching row i of the other, and S = z_I z_Cᵀ / τ:

        L = ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ij )  +  ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ji )

    C(i) is i itself and its negatives. *Siblings* are other captions of the same image that fell into the same batch:

    - `siblings="apart"` (default): they are left out of C(i). A caption of the very image is no negative for it.
    - `siblings="negatives"`: C(i) is the whole batch, siblings pushed away like everything else. The papers do this:
      neither LTD nor VSE++ looks at which image a caption in the batch belongs to. Ask for it to reproduce them.

    `temperature` is τ > 0: LTD uses 0.05 fixed, VSE++ with InfoNCE 0.07 learnt, CLIP learns it from 0.07. (Libraries
    that speak of a *scale* mean 1 / τ; those that average over one direction only report half of another loss.) A
    learnt τ is kept as log(1 / τ) in float64. Where it has passed 0.01 it is put back there before the next batch, as
    CLIP's authors do; clamping inside the graph instead would cut its gradient off and it could never return.
    """

    def __init__(self, temperature: float = 0.05, *, learnt: bool = False, siblings: Siblings = "apart") -> None:
        super().__init__()
        self.siblings = siblings
        self.learnt = learnt
        log_scale = torch.tensor(-math.log(temperature), dtype=torch.float64)
        self.log_scale = nn.Parameter(log_scale, requires_grad=learnt)

    @property
    def temperature(self) -> float:
        """τ as it stands now."""
        return math.exp(-float(self.log_scale.detach()))

    def forward(self, images: Tensor, texts: Tensor, owners: Tensor) -> Tensor:
        """The loss of a batch, a scalar.

        `images` and `texts` are (n, d) unit vectors, row i of one matching row i of the other; `owners` (n,) integers
        say which image each pair belongs to (equal for siblings).
        """
        if self.learnt:
            with torch.no_grad():
                self.log_scale.clamp_(max=_SHARPEST)
        scores = images @ texts.T * self.log_scale.exp().to(images.dtype)
        if self.siblings == "apart":
            same = owners[:, None] == owners[None, :]
            same.fill_diagonal_(False)
            scores = scores.masked_fill(same, -torch.inf)
        own = torch.arange(len(scores), device=scores.device)
        return (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2
