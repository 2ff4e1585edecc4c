"""A batch through the head on a processor: only what is active is touched.

Without expansion a caption needs only its own dozen of W2's 30,522 rows. Images need all of them once, because the L1
norm counts every term that is active anywhere; but a term that is not active (a hundred to one, in a trained head) has
no gradient at all, and the ReLU makes that exact, not approximate. So of the three large products of a step (forward,
gradient of W2, gradient of the hidden vectors) and the three of the scores one remains, and none for captions that are
not expanded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.sparse.expansion import ExpansionSample
from visir.sparse.head import SparseHead
from visir.sparse.kernels import count, fill, own_logits, products, slopes, spread_slopes
from visir.sparse.loss import BatchScores
from visir.sparse.scoring import score
from visir.threads import spread_parts

DENSE_WORK = 0.55
"""Loops over entries are left for dense products above this much work: s_I + s_C + 12 · s_I · s_C, with s the shares of
a side's entries that are active. The first two are gradients, entry by entry, the last one scores, pair by pair.
Measured on one core with 512 pairs and 6,640 terms (seconds a step, loops / dense): s_C = 0, s_I = 0.5: 0.42 / 0.56;
s_I = s_C = 0.3: 1.09 / 0.56, 0.2: 0.82 / 0.52, 0.1: 0.40 / 0.57, 0.02: 0.23 / 0.56."""
_PROBED = 64


def score_active(head: SparseHead, images: Tensor, texts: Tensor, own: Tensor, drawn: ExpansionSample) -> BatchScores:
    """What `visir.sparse.scoring.score` computes, on the CPU, in time that falls with the number of active terms."""
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
