"""The contrastive losses: a caption should find its image, and the image its caption. They take a batch of pairs.

With z_I and z_C the (n, d) vectors of a batch's images and captions, s_ij = z_I[i] · z_C[j], and C(i) the candidates of
pair i (`visir.training.similarities`), for the images as queries; captions likewise with s_ji, and both are averaged:

| loss | of a pair i | source | beside the others |
|---|---|---|---|
| `InfoNCE` | −log softmax_{j ∈ C(i)}(s_ij / τ)_i | LTD eq. 1; thesis 4.E.1 | all negatives, the near ones most |
| `FILIP` | InfoNCE, s a mean of best matches | FILIP eq. 1 to 5 | InfoNCE for sets of one vector |
| `MultiPositive` | mean of −log softmax over i's captions | SupCon; UniCL eq. 2, 3 | InfoNCE for one caption each |
| `Sigmoid` | −Σ_j log σ(±(t s_ij + b)) | SigLIP eq. 1 | no softmax: pairs do not compete |
| `Triplet` | max_j or Σ_j [α + s_ij − s_ii]₊ | VSE++ eq. 5 | only negatives within the margin |
| `Cosine` | 1 − s_ii | LTD section 5.5 | no negatives: one side is fixed |

What is set against shortcuts (`IFM`, `LTD`, `ITD`, `Constraint`) and the sum of all, `Objective`, are in
`visir.training.objective`; the loss of sparse heads (D2S) in `visir.sparse.loss`. A new contrastive loss is a class
here, its settings with `name` and `build`, and one name in `visir.training.objective.Contrastive`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from visir.training.settings import Positive, Settings
from visir.training.similarities import (
    Candidates,
    FalseNegatives,
    VectorPairs,
    best_matches,
    candidates,
    false_negative_pairs,
    precise,
)


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of a batch."""

    total: Tensor  # what is made small, a scalar with a graph
    # Its terms, detached, as they enter the log: "contrastive", and under the name of each auxiliary ("ltd", "itd") its
    # reconstruction loss.
    parts: Mapping[str, Tensor]


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


# InfoNCE: a caption should find its image among the batch's images, and the image its caption.


class InfoNCESettings(Settings):
    """Softmax over the negatives of a batch; see `InfoNCE`.

    Attributes:
        temperature: τ; "own" is the pretrained model's (CLIP comes with a learnt one).
        learn_temperature: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
    """

    name: Literal["infonce"] = "infonce"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    false_negatives: FalseNegatives = "masked"
    local_loss: bool = False

    def build(self, own: OwnScale) -> InfoNCE:
        """The loss."""
        start = own.temperature_of(self.temperature)
        return InfoNCE(start, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class InfoNCE(nn.Module):
    """Symmetric cross-entropy over the negatives of a batch (latent target decoding, eq. 1; thesis, appendix 4.E.1).

    With unit vectors z_I (n, d) and z_C (n, d), row i of one matching row i of the other, and S = z_I z_Cᵀ / τ:

        L = ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ij )  +  ½ · mean_i −log( exp S_ii / Σ_{j ∈ C(i)} exp S_ji )

    C(i) is i itself and its negatives: the whole batch with `false_negatives="kept"`, as in the papers; without the
    other captions of the same image with "masked" (`visir.training.similarities.FalseNegatives`).

    Hard negatives, where a batch has them, are further candidates of every query: sums over j go over them too.

    `temperature` is τ > 0: LTD uses 0.05 fixed, VSE++ with InfoNCE 0.07 learnt, CLIP learns it from 0.07 (the released
    weights stand at 0.01). Libraries that average over one direction only report half of another loss. The thesis
    prints eq. 4.E.1 without the minus sign; it is meant to be made small, as here.
    """

    def __init__(
        self, temperature: float = 0.05, *, learnt: bool = False, false_negatives: FalseNegatives = "masked"
    ) -> None:
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        return self.over(candidates(pairs))

    def over(self, directions: Iterable[Candidates]) -> Tensor:
        """The mean over the queries of both directions, among these candidates."""
        losses = []
        for of in directions:
            logits = self.temperature(of.scores).masked_fill(of.left_out(self.false_negatives), -torch.inf)
            own = torch.arange(of.first, of.first + len(logits), device=logits.device)
            if of.queries is None:
                losses.append(functional.cross_entropy(logits, own))
            else:
                losses.append(of.mean(functional.cross_entropy(logits, own, reduction="none")))
        return (losses[0] + losses[1]) / 2


# The triplet loss: a positive should be more similar than a negative, by a margin.

Negatives = Literal["hardest", "sum"]


Reduction = Literal["mean", "sum"]


class TripletSettings(Settings):
    """Margin hinge over the negatives of a batch; see `Triplet`.

    Attributes:
        margin: By how much, in cosines.
        negatives: The "hardest" of the batch (VSE++), or the "sum" over all of them.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
        reduction: The "mean" over the queries of both directions, or their "sum" (the papers' code).
        local_loss: As with InfoNCE.
    """

    name: Literal["triplet"] = "triplet"
    margin: Positive = 0.2
    negatives: Negatives = "hardest"
    false_negatives: FalseNegatives = "masked"
    reduction: Reduction = "mean"
    local_loss: bool = False

    def build(self, own: OwnScale) -> Triplet:
        """The loss."""
        return Triplet(
            self.margin, negatives=self.negatives, false_negatives=self.false_negatives, reduction=self.reduction
        )


class Triplet(nn.Module):
    """Hinge on the margin between a positive and its negatives, in both directions (VSE++, Faghri et al. 2018, eq. 5).

    With s the cosines, α the margin and [x]₊ = max(0, x), for the images as queries

        hardest:  ℓ_i = max_{j ≠ i} [α + s_ij − s_ii]₊          sum:  ℓ_i = Σ_{j ≠ i} [α + s_ij − s_ii]₊

    and for the captions likewise with s_ji; j runs over the whole batch with `false_negatives="kept"`, as in the
    papers, and not over other captions of the same image with "masked"; and over hard negatives, where a batch has
    them. A query without negatives costs nothing.
    Negatives that are equally hard share the gradient.

    `reduction="mean"` (default): the mean over the 2 n queries, so that i2t and t2i are averaged as in every other
    objective here, and the loss does not depend on the batch size. `reduction="sum"` is what the released code of VSE++
    and of LTD computes: 2 n times as much, 256 times in a batch of 128. Alone, Adam-like optimisers do not feel the
    factor, but a clipping threshold does (a sum's gradient is nearly always longer than 2), and so does everything that
    is added: β and λ ≤ 100 weigh a reconstruction loss 2 n times less beside a sum. Ask for it to reproduce LTD with
    the triplet loss.

    The hardest negative gives each query a gradient from one pair only. Training can settle where all vectors meet in
    one point and the mean loss is α; LTD's setting with this loss has a batch norm after the projection.
    """

    def __init__(
        self,
        margin: float = 0.2,
        *,
        negatives: Negatives = "hardest",
        false_negatives: FalseNegatives = "masked",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.margin = margin
        self.negatives = negatives
        self.false_negatives = false_negatives
        self.reduction = reduction

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        costs = []
        for of in candidates(pairs):  # a row per image, then a row per caption
            apart = of.left_out(self.false_negatives) | of.right
            costs.append((self.margin + of.scores - of.of_right[:, None]).clamp(min=0).masked_fill(apart, 0.0))
        of_query = torch.cat([cost.amax(1) if self.negatives == "hardest" else cost.sum(1) for cost in costs])
        if pairs.queries is not None:
            total = of_query.sum() * pairs.queries.processes
            return total / (2 * len(pairs.anchors)) if self.reduction == "mean" else total
        return of_query.mean() if self.reduction == "mean" else of_query.sum()


# The sigmoid loss: every image and every caption of a batch are asked by themselves whether they belong together.

Siblings = Literal["masked", "kept", "positives"]


class SigmoidSettings(Settings):
    """A yes or no for every pair of a batch; see `Sigmoid`.

    Attributes:
        temperature: 1 / t; "own" is the pretrained model's.
        learn_temperature: Go on learning it.
        bias: b; "own" is the pretrained model's (SigLIP and its kin have one).
        learn_bias: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), "kept" as negatives, or
            "positives".
        local_loss: As with InfoNCE.
    """

    name: Literal["sigmoid"] = "sigmoid"
    temperature: Positive | Literal["own"] = 0.1
    learn_temperature: bool = True
    bias: float | Literal["own"] = -10.0
    learn_bias: bool = True
    false_negatives: Siblings = "masked"
    local_loss: bool = False

    def build(self, own: OwnScale) -> Sigmoid:
        """The loss."""
        bias = own.bias if self.bias == "own" else self.bias
        assert bias is not None, "build_objective has looked"
        return Sigmoid(
            own.temperature_of(self.temperature),
            bias,
            learnt=(self.learn_temperature, self.learn_bias),
            false_negatives=self.false_negatives,
        )


class Sigmoid(nn.Module):
    """The sigmoid loss (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training", eq. 1 and algorithm 1)."""

    # With s the cosines, t = exp(t') and b learnt, and z_ij = 1 where image i and caption j belong together, else −1:
    #     L = −(1/n) Σ_i Σ_j log σ( z_ij (t · s_ij + b) )
    # The paper begins with t' = log 10 and b = −10, so that the many negatives do not outweigh the positives in the
    # first steps; t has no upper bound. There is no softmax: the loss of a pair does not depend on the others, one
    # number for both directions. The sum is over all pairs and divided by n, not by n², so the loss grows with the
    # batch.
    # Captions of the same image are "masked", "kept" as negatives (the paper's data has one caption for an image) or
    # "positives". Hard negatives are further pairs with z = −1.

    def __init__(
        self,
        temperature: float = 0.1,
        bias: float = -10.0,
        *,
        learnt: tuple[bool, bool] = (True, True),
        false_negatives: Siblings = "masked",
    ) -> None:
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt[0], bounded=False)
        self.bias = nn.Parameter(torch.tensor(bias, dtype=torch.float64), requires_grad=learnt[1])

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        of_anchors, of_positives = candidates(pairs)
        # The pairs of the batch are the same in both directions; only the hard negatives differ.
        total = self._sum(of_anchors, 0) + self._sum(of_positives, of_anchors.batch)
        return of_anchors.share(total)

    def _sum(self, of: Candidates, first: int) -> Tensor:
        """−Σ log σ over the candidates from `first` on."""
        if first == of.scores.shape[1]:
            return of.scores.new_zeros(())
        right = of.right
        siblings = of.siblings.clone()
        siblings[:, of.batch :] = False
        if self.false_negatives == "positives":
            right |= siblings
        left_out = of.left_out("masked" if self.false_negatives == "masked" else "kept")
        logits = self.temperature(of.scores) + self.bias.to(of.scores.dtype)
        losses = functional.softplus(torch.where(right, -logits, logits)).masked_fill(left_out, 0.0)
        return losses[:, first:].sum()


# Several positives: every caption of an image that is in the batch is a right answer.

Demand = Literal["every", "any"]


class MultiPositiveSettings(Settings):
    """InfoNCE with all captions of an image as positives; see `MultiPositive`.

    It needs batches with several captions of an image: `optimiser.per_image`.

    Attributes:
        temperature: τ; "own" is the pretrained model's.
        learn_temperature: Go on learning it.
        demand: "every" positive has to be likely, or "any" of them.
        local_loss: As with InfoNCE.
    """

    name: Literal["multi-positive"] = "multi-positive"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    demand: Demand = "every"
    local_loss: bool = False

    def build(self, own: OwnScale) -> MultiPositive:
        """The loss."""
        return MultiPositive(own.temperature_of(self.temperature), learnt=self.learn_temperature, demand=self.demand)


class MultiPositive(nn.Module):
    """Contrast with several positives (SupCon: Khosla et al. 2020, eq. 2 and 3; between two modalities: UniCL, Yang et
    al. 2022, eq. 2 and 3)."""

    # With P(i) the pairs of the batch whose image is that of pair i, itself among them, and p_ij the softmax over the
    # candidates of image i at temperature τ, p_ij = exp(s_ij / τ) / Σ_k exp(s_ik / τ):
    #     every:  ℓ_i = −(1/|P(i)|) Σ_{j ∈ P(i)} log p_ij          any:  ℓ_i = −log( (1/|P(i)|) Σ_{j ∈ P(i)} p_ij )
    # and for the captions likewise; L is the mean of ℓ over the images plus that over the captions, halved. "every" is
    # SupCon's L_out: smallest where all captions of an image are equally near to it. "any" is its L_in: one caption
    # that is found is nearly enough; its gradient is that of MIL-NCE (Miech et al. 2020, eq. 1). With one caption for
    # an image in the batch both are InfoNCE.
    # An image stands in the batch once for each of its captions there, and counts as often. Hard negatives are further
    # candidates, without those that belong to the query's own image.

    def __init__(self, temperature: float = 0.05, *, learnt: bool = False, demand: Demand = "every") -> None:
        super().__init__()
        self.demand = demand
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        of_anchors, of_positives = candidates(pairs)
        return (self._mean(of_anchors) + self._mean(of_positives)) / 2

    def _mean(self, of: Candidates) -> Tensor:
        right = of.right
        right[:, : of.batch] |= of.siblings[:, : of.batch]
        logits = self.temperature(of.scores).masked_fill(of.left_out("kept"), -torch.inf)
        log_p = torch.log_softmax(logits, dim=1)
        count = right.sum(1).to(log_p.dtype)
        if self.demand == "any":
            return of.mean(count.log() - torch.logsumexp(log_p.masked_fill(~right, -torch.inf), dim=1))
        return -of.mean(log_p.masked_fill(~right, 0.0).sum(1) / count)


# FILIP: every word should find its place in the picture, and every place its word.


class FILIPSettings(Settings):
    """InfoNCE over late interaction, for sides that have several vectors for each item; see `FILIP`.

    Attributes:
        temperature: τ.
        learn_temperature: Go on learning it.
        false_negatives: Other captions of the same image in a batch are "masked" (left out), or "kept" as negatives.
    """

    name: Literal["filip"] = "filip"
    temperature: Positive = 0.05
    learn_temperature: bool = True
    false_negatives: FalseNegatives = "masked"

    def build(self, own: OwnScale) -> FILIP:
        """The loss."""
        return FILIP(self.temperature, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class FILIP(InfoNCE):
    """InfoNCE over fine-grained similarities (FILIP, Yao et al. 2021, equations 1 to 5)."""

    # With unit vectors x_1 … x_t of a picture I and y_1 … y_t' of a caption C:
    #     s(I, C) = mean_k max_r x_k · y_r        s(C, I) = mean_r max_k x_k · y_r
    #     L = ½ · mean_i −log( exp(s(I_i, C_i) / τ) / Σ_j exp(s(I_i, C_j) / τ) )
    #       + ½ · mean_i −log( exp(s(C_i, I_i) / τ) / Σ_j exp(s(C_i, I_j) / τ) )
    # The two similarities differ, unlike those of single vectors: each direction has its own matrix. Padding is neither
    # among the k and r of a maximum, nor counted by a mean.
    # Readings that the paper leaves open, and what is taken here: the *mean* is its equations 3 and 4; ColBERT's MaxSim
    # takes the sum, by which the search of a checkpoint ranks: the same order, because all candidates of a query are
    # summed over the query's vectors. All vectors take part; the paper keeps the quarter that matches best within a
    # batch, to save memory. τ is learnt from 0.05 (the paper: from 0.07, and held above 0.01, as here).

    def __init__(
        self, temperature: float = 0.05, *, learnt: bool = True, false_negatives: FalseNegatives = "masked"
    ) -> None:
        super().__init__(temperature, learnt=learnt, false_negatives=false_negatives)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch of (n, t, d) vectors with zeros as padding, a scalar."""
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            matches = best_matches(precise(pairs.anchors), precise(pairs.positives))
        siblings = false_negative_pairs(pairs.anchor_rows)
        return self.over(Candidates(scores, siblings, len(siblings)) for scores in matches)


# The negative cosine: images are brought to fixed caption vectors; nothing is contrasted.


class CosineSettings(Settings):
    """1 − cosine between image and caption; see `Cosine`."""

    name: Literal["cosine"] = "cosine"

    def build(self, own: OwnScale) -> Cosine:
        """The loss."""
        return Cosine()


class Cosine(nn.Module):
    """Mean of 1 − cos(z_I, z_C) over the pairs of a batch (latent target decoding, section 5.5).

    For a text side that cannot move, as where the latent target itself is the caption's vector. Were the text side
    trained, both sides could meet in one point and the loss be zero: without negatives nothing holds them apart
    (section 3.2.1). In [0, 2]. "Negative cosine similarity" names both this and −cos; their gradients are equal.
    """

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        return 1 - (precise(pairs.anchors) * precise(pairs.positives)).sum(1).mean()
