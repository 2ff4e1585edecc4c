"""GradCache: the gradient of a large batch in the memory of a small one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from visir.training.objectives.base import Losses

Vectors = tuple[Tensor, Tensor]


def backward(
    vectors_of: Callable[[int], Vectors],
    chunks: int,
    losses_of: Callable[[Tensor, Tensor], Losses],
    scaled: Callable[[Tensor], Tensor],
) -> Losses:
    """Add the gradient of a batch's loss to the weights' gradients."""
    # With several chunks (Gao et al. 2021, section 3): all vectors without a graph, the loss of the detached vectors
    # and its gradient with respect to them, then each chunk again, with a graph into which that gradient is fed. The
    # loss itself has its graph once, so that the objective's own weights (a temperature, a decoder) get their gradient
    # as in a plain step. Only the order of additions differs. Nothing in the towers may depend on which rows are
    # together, as batch norm does.
    if chunks == 1:
        losses = losses_of(*vectors_of(0))
        scaled(losses.total).backward()
        return Losses(losses.total.detach(), losses.parts)
    with torch.no_grad():
        first = [vectors_of(chunk) for chunk in range(chunks)]
    anchors, positives = (torch.cat(side).requires_grad_() for side in zip(*first, strict=True))
    losses = losses_of(anchors, positives)
    scaled(losses.total).backward()
    sizes = [len(part) for part, _ in first]
    gradients = [
        side.new_zeros(side.shape).split(sizes) if side.grad is None else side.grad.split(sizes)
        for side in (anchors, positives)
    ]
    for chunk in range(chunks):
        again = zip(vectors_of(chunk), (side[chunk] for side in gradients), strict=True)
        # A side of which nothing is trained has no graph.
        pairs = [(vectors, gradient) for vectors, gradient in again if vectors.requires_grad]
        torch.autograd.backward([vectors for vectors, _ in pairs], [gradient for _, gradient in pairs])
    return Losses(losses.total.detach(), losses.parts)
