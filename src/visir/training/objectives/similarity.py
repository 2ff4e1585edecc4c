"""Cosines and the symmetric cross-entropy over them, which several objectives share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from visir.training.objectives.base import VectorPairs
from visir.training.objectives.false_negatives import FalseNegatives, false_negative_pairs


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
