"""The loss of sparse heads (D2S): scores of a batch as the head gives them, and what training makes small of them.

With s_I and s_C the sparse vectors of a batch's pairs, S_ij = s_I[i] · s_C[j], and T the teacher's cosines of the dense
vectors over τ:

    ℓ(I→C) = mean_i −Σ_j softmax(T)_ij log softmax(S)_ij          ℓ(C→I) likewise by columns
    L = (1 − λ) [ℓ(I→C) + ℓ(C→I)] + λ η [L1(s_I) + L1(s_C)]       (thesis eq. 3.7)

Beside `visir.training.losses`: InfoNCE over dot products, with the teacher's answers in place of the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from visir.sparse.expansion import ExpansionSample, allowed
from visir.sparse.kernels import count, fill, own_logits, products, slopes, spread_slopes
from visir.sparse.language_model import SparseHead
from visir.threads import spread_parts


@dataclass(frozen=True, eq=False)
class BatchScores:
    """A batch of B pairs as the head sees it."""

    scores: Tensor  # (B, B) dot products of sparse vectors, a row for each image, a column for each caption
    image_weight: Tensor  # mean L1 norm of a vector of each side: its weights summed over terms
    text_weight: Tensor
    image_terms: Tensor  # mean number of active terms; without a gradient
    text_terms: Tensor


# A batch through the head, on any device: every weight of every vector is computed.


def score(head: SparseHead, images: Tensor, texts: Tensor, own: Tensor, drawn: ExpansionSample) -> BatchScores:
    """Scores of `images` (B, d) and `texts` (B, d), dense vectors of pairs, as EXPAND leaves the captions.

    `own` (B, L): the captions' own terms, filled up with |V|. Both sides go through the head in one pass. All shapes
    are the same in every step, and nothing is read back from the device, so that it can be compiled and runs ahead.
    """
    weights = head(torch.cat([images, texts]))
    image, text = weights[: len(images)], weights[len(images) :] * allowed(own, drawn, head.size)
    return batch_scores(image, text)


def batch_scores(image: Tensor, text: Tensor) -> BatchScores:
    """Scores of sparse vectors (B, |V|) of pairs."""
    with torch.autocast(image.device.type, enabled=False):  # eight bits of a score would not tell candidates apart
        scores = image @ text.T
    return BatchScores(
        scores,
        image.sum(dim=1).mean(),
        text.sum(dim=1).mean(),
        (image.detach() > 0).sum(dim=1).float().mean(),
        (text.detach() > 0).sum(dim=1).float().mean(),
    )


# A batch through the head on a processor: only what is active is touched.

DENSE_WORK = 0.55
"""Loops over entries are left for dense products above this much work: s_I + s_C + 12 · s_I · s_C, with s the shares of
a side's entries that are active. The first two are gradients, entry by entry, the last one scores, pair by pair.
Measured on one core with 512 pairs and 6,640 terms (seconds a step, loops / dense): s_C = 0, s_I = 0.5: 0.42 / 0.56;
s_I = s_C = 0.3: 1.09 / 0.56, 0.2: 0.82 / 0.52, 0.1: 0.40 / 0.57, 0.02: 0.23 / 0.56."""


_PROBED = 64


def score_active(head: SparseHead, images: Tensor, texts: Tensor, own: Tensor, drawn: ExpansionSample) -> BatchScores:
    """What `score` computes, on the CPU, in time that falls with the number of active terms."""
    # A fresh head has every second term active; then, if captions are expanded, `score` itself is called. Which of the
    # two it is depends on the weights and the batch alone (a probe of every 64th term), so a training that is resumed
    # takes the same ways. Both agree up to rounding.
    hidden = head.hidden(torch.cat([images, texts]))
    if _work(head, hidden.detach(), drawn, len(images)) > DENSE_WORK:
        return score(head, images, texts, own, drawn)
    scores, image_weight, text_weight, image_terms, text_terms = _Active.apply(
        hidden, head.words, head.bias, head.usable, own, drawn.captions, drawn.words
    )
    return BatchScores(scores, image_weight, text_weight, image_terms, text_terms)


@torch.no_grad()
def _work(head: SparseHead, hidden: Tensor, drawn: ExpansionSample, images: int) -> float:
    """See `DENSE_WORK`; shares are estimated, captions that are not expanded count as inactive."""
    image = _share(head, hidden[:images])
    text = _share(head, hidden[images:][drawn.captions]) * float(drawn.captions.float().mean())
    return image + text + 12.0 * image * text


@torch.no_grad()
def _share(head: SparseHead, hidden: Tensor) -> float:
    """The share of active entries among those of every `_PROBED`th term; 0 of no vectors."""
    if not len(hidden):
        return 0.0
    logits = torch.addmm(head.bias[::_PROBED], hidden, head.words[::_PROBED].T)
    return float(((logits > 0) & head.usable[::_PROBED]).float().mean())


class _Active(torch.autograd.Function):
    """Scores and norms from hidden vectors (images, then as many captions), kept by term for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        words: Tensor,
        bias: Tensor,
        usable: Tensor,
        own: Tensor,
        expanded: Tensor,
        may: Tensor | None,
    ) -> tuple[Tensor, ...]:
        images, size = len(hidden) // 2, len(words)
        captions = torch.nonzero(expanded)[:, 0] + images
        rows = torch.cat([hidden[:images], hidden[captions]]) if len(captions) else hidden[:images]
        logits = torch.addmm(bias[:, None], words, rows.T).numpy()  # by term: each term's entries lie side by side
        h, w, b = hidden.contiguous().numpy(), words.detach().numpy(), bias.detach().numpy()
        flags = usable.numpy()
        coins = np.ones(size, bool) if may is None else may.numpy()

        own_starts, own_rows, own_terms = _by_term(own.numpy(), ~expanded.numpy(), size, images)
        own_found = np.empty(len(own_terms), h.dtype)
        spread_parts(len(own_terms), lambda lo, hi: own_logits(lo, hi, own_terms, own_rows, h, w, b, own_found))
        counts = np.empty(size, np.int64)
        spread_parts(size, lambda lo, hi: count(lo, hi, logits, images, flags, coins, own_starts, own_found, counts))
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        entries, weights = np.empty(starts[-1], np.int32), np.empty(starts[-1], h.dtype)
        expanded_rows = captions.numpy().astype(np.int32)
        spread_parts(
            size,
            lambda lo, hi: fill(
                lo, hi, logits, images, flags, coins, expanded_rows, own_starts, own_rows, own_found, starts, entries,
                weights,
            ),
        )  # fmt: skip
        scores = np.zeros((images, images), h.dtype)
        spread_parts(images, lambda lo, hi: products(lo, hi, images, starts, entries, weights, scores))
        ctx.kept = h, w, starts, entries, weights
        of_images = entries < images
        totals = [float(weights[of_images].sum(dtype=np.float64)), float(weights[~of_images].sum(dtype=np.float64))]
        active = [int(of_images.sum()), int((~of_images).sum())]
        return (
            torch.from_numpy(scores).T,
            *(torch.tensor(total / images, dtype=hidden.dtype) for total in totals),
            *(torch.tensor(terms / images) for terms in active),
        )

    @staticmethod
    def backward(ctx: Any, *above: Any) -> tuple[Tensor | None, ...]:
        h, w, starts, entries, weights = ctx.kept
        images, size = len(h) // 2, len(w)
        scores = np.ascontiguousarray(above[0].T.numpy())
        image_slope, text_slope = (h.dtype.type(float(slope_above) / images) for slope_above in above[1:3])
        slope = np.empty(len(entries), h.dtype)
        spread_parts(
            size,
            lambda lo, hi: slopes(lo, hi, images, starts, entries, weights, scores, image_slope, text_slope, slope),
        )
        hidden_slope, words_slope = np.zeros_like(h), np.zeros_like(w)
        spread_parts(
            h.shape[1],
            lambda lo, hi: spread_slopes(lo, hi, starts, entries, slope, h, w, hidden_slope, words_slope),
        )
        sums = np.concatenate([[0.0], np.cumsum(slope, dtype=np.float64)])
        bias_slope = (sums[starts[1:]] - sums[starts[:-1]]).astype(h.dtype)
        gradients = (torch.from_numpy(gradient) for gradient in (hidden_slope, words_slope, bias_slope))
        return (*gradients, None, None, None, None)


def _by_term(
    own: NDArray[np.int64], chosen: NDArray[np.bool_], size: int, images: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The own terms of the captions in `chosen`, by term: starts (|V| + 1,), rows in the batch, terms."""
    rows, columns = np.nonzero((own < size) & chosen[:, None])
    terms = own[rows, columns]
    order = np.argsort(terms, kind="stable")
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(terms, minlength=size), out=starts[1:])
    return starts, (rows[order] + images).astype(np.int32), terms[order].astype(np.int32)


# What is made small: sparse scores that rank as dense ones do, with few and light terms.


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
