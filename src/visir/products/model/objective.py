"""The objective of a category model: InfoNCE between categories and products, eqs 7.7–7.9, and two extensions."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from visir.errors import ConfigurationError
from visir.products.opening import NONE, CategoryTree
from visir.training.objectives.base import VectorPairs
from visir.training.objectives.similarity import Temperature, cosines
from visir.training.settings import Settings
from visir.training.sides import Positive

Targets = Literal["pairs", "multi-positive"]


class CategoryLoss(Settings):
    """Eqs 7.7–7.9; see `CategoryInfoNCE`."""

    temperature: Positive = 1.0  # τ, 1 in the thesis
    learn_temperature: bool = False  # whether τ is trained
    # λ, the weight of product to category; category to product has 1 − λ.
    balance: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    targets: Targets = "pairs"  # "pairs" (the thesis) or "multi-positive"
    hierarchy: Annotated[float, Field(ge=0.0)] = 0.0  # the weight of the tree penalty; 0 is none (the thesis)


class CategoryInfoNCE(nn.Module):
    """InfoNCE over a batch of category–product pairs, in both directions."""

    # With cosines s_jk of category j and product k, S = s / τ and targets T whose rows sum to 1:
    #     ℓ_j(c→p) = −Σ_k T_jk log( exp S_jk / Σ_m exp S_jm )          (7.7)
    #     ℓ_j(p→c) = −Σ_k T′_jk log( exp S_kj / Σ_m exp S_mj )         (7.8)
    #     L = mean_j  λ ℓ_j(p→c) + (1 − λ) ℓ_j(c→p)                    (7.9)
    # - targets "pairs": T = T′ = 1 on the diagonal, which is the thesis's loss. Two products of one category in a batch
    #   are then each other's negatives although both are right.
    # - targets "multi-positive": whatever is right shares the target evenly: T_jk = 1 / |P(j)| for the products k that
    #   belong to category j, and T′ likewise for the categories of product j. A product belongs to every category of
    #   its path, so an ancestor that another pair drew is right too, whichever category the product itself was drawn
    #   with. (L_out of Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. 2; L_in, the other reading,
    #   is content when one of several positives is found.)
    # - `hierarchy` γ > 0 adds γ · mean_j λ E_j(p→c) + (1 − λ) E_j(c→p), where E_j(c→p) = Σ_k softmax_k(S_jk) · up(j, k)
    #   is how many levels one has to climb from category j, on average over what it finds, until the product found
    #   belongs: 0 for a right one, 1 for a product of the parent, depth(j) for one of another tree. The thesis asks for
    #   a loss that minimises the tree distance of predictions (section 7.6.1) and gives none. Climbing from the
    #   category, and not the way from one category to the other, so that an error costs the same however deep the
    #   product lies.
    # `pairs.anchors` are categories, `pairs.positives` products, `pairs.anchor_rows` the rows of the categories they
    # were paired with and `pairs.classes` those of the products' own, most specific categories.

    paths: Tensor
    depths: Tensor

    def __init__(self, settings: CategoryLoss, tree: CategoryTree) -> None:
        super().__init__()
        self.settings = settings
        self.temperature = Temperature(settings.temperature, learnt=settings.learn_temperature)
        # Not trained, and a function of the catalogue: no part of a saved state.
        self.register_buffer("paths", torch.from_numpy(tree.paths), persistent=False)
        self.register_buffer("depths", torch.from_numpy(tree.depths), persistent=False)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        settings = self.settings
        logits: Tensor = self.temperature(cosines(pairs))
        up = self.levels(pairs) if settings.targets != "pairs" or settings.hierarchy else None
        to_product = _loss(logits, up, settings)
        to_category = _loss(logits.T, None if up is None else up.T, settings)
        return settings.balance * to_category + (1 - settings.balance) * to_product

    def levels(self, pairs: VectorPairs) -> Tensor:
        """(n, n) integers up(j, k): levels from category j up to the first that product k belongs to; 0: it is
        right."""
        # In another tree there is none: one level above the root, depth(j) in all.
        if pairs.classes is None:
            raise ConfigurationError(
                "this loss needs the products' own categories; give `TrainingExamples.classes`.",
                code="loss-needs-products-categories",
            )
        path, own = self.paths[pairs.anchor_rows], self.paths[pairs.classes]
        shared = (path[:, None] == own[None, :]) & (path != NONE)[:, None]
        return self.depths[pairs.anchor_rows][:, None] - shared.sum(-1)


def _loss(logits: Tensor, up: Tensor | None, settings: CategoryLoss) -> Tensor:
    """One direction; queries along the rows."""
    log_shares = logits.log_softmax(dim=1)
    if up is not None and settings.targets == "multi-positive":
        right = (up == 0).to(logits.dtype)
        loss = -(right * log_shares).sum(1) / right.sum(1)
    else:
        loss = -log_shares.diagonal()
    if up is not None and settings.hierarchy:
        loss = loss + settings.hierarchy * (log_shares.exp() * up).sum(1)
    return loss.mean()
