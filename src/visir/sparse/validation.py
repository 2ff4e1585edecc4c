"""Validation while training: text to image over sparse vectors, and what it costs.

The numbers that leave the house come from `visir.evaluation` and the measures of this room. This is the quick count by
which an epoch is chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visir.sparse.examples import SparseExamples
from visir.sparse.expansion import ExpansionSample, Variant, allowed
from visir.sparse.head import SparseHead

_BLOCK = 512
_SPARSE = 0.02
"""Below this share of active terms a block of captions has few columns in use, and only they are multiplied."""


@torch.inference_mode()
def validate(head: SparseHead, pairs: SparseExamples, variant: Variant) -> dict[str, float]:
    """Text to image on a split: "mrr@10", "hit@1", "hit@5" in percent; "flops", "image terms", "text terms"."""
    # FLOPs is eq. 3.1, the mean number of terms that a caption and an image both have. Captions are expanded, except
    # under "none". Ties, and NaN, count against the query, so that a head whose vectors are all empty finds nothing.
    device = pairs.images.device
    images = torch.cat([head(block) for block in pairs.images.split(_BLOCK)])
    having = (images > 0).sum(dim=0, dtype=torch.float64)  # images of each term
    expanded = torch.full((_BLOCK,), variant != "none", device=device)
    ranks, active, common = [], 0.0, 0.0
    for start in range(0, len(pairs), _BLOCK):
        rows = slice(start, start + _BLOCK)
        own, image_rows = pairs.own[rows], pairs.image_rows[rows]
        texts = head(pairs.texts[rows]) * allowed(own, ExpansionSample(expanded[: len(own)]), head.size)
        count = (texts > 0).sum(dim=0, dtype=torch.float64)
        active += float(count.sum())
        common += float(count @ having)
        scores = _product(texts, images, float(count.sum()) / texts.numel())
        best = scores.gather(1, image_rows[:, None])
        above = ~(scores < best)
        above.scatter_(1, image_rows[:, None], False)
        ranks.append(1 + above.sum(dim=1))
    first_ranks = torch.cat(ranks).double()
    reciprocal = torch.where(first_ranks <= 10, 1.0 / first_ranks, torch.zeros_like(first_ranks))
    return {
        "mrr@10": 100.0 * float(reciprocal.mean()),
        "hit@1": 100.0 * float((first_ranks <= 1).double().mean()),
        "hit@5": 100.0 * float((first_ranks <= 5).double().mean()),
        "flops": common / (len(images) * len(pairs)),
        "image terms": float(having.sum()) / len(images),
        "text terms": active / len(pairs),
    }


def _product(texts: Tensor, images: Tensor, share: float) -> Tensor:
    if texts.device.type == "cpu" and share < _SPARSE:
        columns = torch.nonzero(texts.any(dim=0))[:, 0]
        return texts[:, columns] @ images[:, columns].T
    return texts @ images.T
