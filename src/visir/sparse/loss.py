"""What is made small: sparse scores that rank as dense ones do, with few and light terms (thesis eq. 3.7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, eq=False)
class BatchScores:
    """A batch of B pairs as the head sees it."""

    scores: Tensor  # (B, B) dot products of sparse vectors, a row for each image, a column for each caption
    image_weight: Tensor  # mean L1 norm of a vector of each side: its weights summed over terms
    text_weight: Tensor
    image_terms: Tensor  # mean number of active terms; without a gradient
    text_terms: Tensor


@dataclass(frozen=True)
class SparseLoss:
    """L = (1 - λ) [ℓ(I→C) + ℓ(C→I)] + λ η [L1(s_I) + L1(s_C)], a mean over the batch."""

    # - η is given at each step; an L1 norm is a sum over terms, averaged over the batch, as in the released code. A
    #   mean over terms would want an η 30,522 times as large.
    # The logarithm is natural; the chapter's log2 multiplies ℓ by 1.4427, which is the same as a smaller η. ℓ is a
    # cross entropy: the sum over all candidates that the chapter's formula leaves out stands in its code.

    # τ of the teacher, softmax(cos(z_I, z_C) / τ) over the batch. Dense vectors are brought to length 1 first: at τ =
    # 0.001 a longer vector would make the teacher a mere argmax. (BLIP's and ALBEF's are unit vectors.)
    temperature: float = 0.001
    balance: float = 0.5  # λ; 0.5, the released code's (it halves both parts)

    def __call__(
        self, scored: BatchScores, images: Tensor, texts: Tensor, eta: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch."""
        # images: (B, d) dense vectors, of any length.
        # texts: (B, d) those of the captions.
        with torch.no_grad():
            cosines = functional.normalize(images, dim=-1) @ functional.normalize(texts, dim=-1).T
            teacher = cosines / self.temperature
        i2t = functional.cross_entropy(scored.scores, teacher.softmax(dim=1))
        t2i = functional.cross_entropy(scored.scores.T, teacher.T.softmax(dim=1))
        norms = scored.image_weight + scored.text_weight
        total = (1.0 - self.balance) * (i2t + t2i) + self.balance * eta * norms
        return total, {"i2t": i2t.detach(), "t2i": t2i.detach(), "l1": norms.detach()}


def eta_at(eta: float, step: int, steps: int, warmup: float) -> float:
    """η at a step (from 0) of `steps`: η · min(1, t/T)² with T = ⌊warmup · steps⌋, as in the released code."""
    rising = int(warmup * steps)
    return eta if step >= rising else eta * (step / rising) ** 2
