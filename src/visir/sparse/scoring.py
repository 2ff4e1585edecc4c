"""A batch through the head, on any device: every weight of every vector is computed."""

from __future__ import annotations

import torch
from torch import Tensor

from visir.sparse.expansion import ExpansionSample, allowed
from visir.sparse.head import SparseHead
from visir.sparse.loss import BatchScores


def score(head: SparseHead, images: Tensor, texts: Tensor, own: Tensor, drawn: ExpansionSample) -> BatchScores:
    """Scores of `images` (B, d) and `texts` (B, d), dense vectors of pairs, as EXPAND leaves the captions.

    `own` (B, L): the captions' own terms, filled up with |V|. Both sides go through the head in one pass. All shapes
    are the same in every step, and nothing is read back from the device, so that it can be compiled and runs ahead.
    """
    weights = head(torch.cat([images, texts]))
    image, text = weights[: len(images)], weights[len(images) :] * allowed(own, drawn, head.size)
    with torch.autocast(image.device.type, enabled=False):  # eight bits of a score would not tell candidates apart
        scores = image @ text.T
    return BatchScores(
        scores,
        image.sum(dim=1).mean(),
        text.sum(dim=1).mean(),
        (image.detach() > 0).sum(dim=1).float().mean(),
        (text.detach() > 0).sum(dim=1).float().mean(),
    )
