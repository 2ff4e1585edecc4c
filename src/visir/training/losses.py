"""The losses: what training makes small. They take pairs of vectors and give one number.

With z_I and z_C the (n, d) vectors of a batch's images and captions, s_ij = z_I[i] · z_C[j], and C(i) the candidates of
pair i (`visir.training.similarities`), for the images as queries; captions likewise with s_ji, and both are averaged:

| loss | of a pair i | source | beside the others |
|---|---|---|---|
| `InfoNCE` | −log softmax_{j ∈ C(i)}(s_ij / τ)_i | LTD eq. 1; thesis 4.E.1 | all negatives, the near ones most |
| `IFM` | ½ InfoNCE(s) + ½ InfoNCE(s ± ε) | Robinson et al. 2021; thesis 4.E.3 | InfoNCE for ε = 0 |
| `MultiPositive` | mean of −log softmax over i's captions | SupCon; UniCL eq. 2, 3 | InfoNCE for one caption each |
| `FILIP` | InfoNCE, s a mean of best matches | FILIP eq. 1 to 5 | InfoNCE for sets of one vector |
| `Sigmoid` | −Σ_j log σ(±(t s_ij + b)) | SigLIP eq. 1 | no softmax: pairs do not compete |
| `Triplet` | max_j or Σ_j [α + s_ij − s_ii]₊ | VSE++ eq. 5 | only negatives within the margin |
| `Cosine` | 1 − s_ii | LTD section 5.5 | no negatives: one side is fixed |
| `LTD` | 1 − cos(decoder(z_C[i]), y_i) | LTD eq. 5, 6 | beside one of the above: what the caption's y knows |
| `ITD` | −Σ_t log p(x_t ∣ x_<t, z_C[i]) | LTD eq. 4 | as LTD, for words in place of a latent target |
| `SparseLoss` | cross-entropy to a teacher's softmax, + λ η L1 | thesis eq. 3.7 (D2S) | InfoNCE, soft targets |

LTD and ITD join a contrastive loss as a second term (`Dual`, LTD eq. 7) or as a constraint (`Constraint`, eq. 8 and 9);
`Objective` is the sum. A new contrastive loss is a class, its settings with `name` and `build`, and one name in
`Contrastive`; a new auxiliary one is a class and one key of `Auxiliary`. `visir.training.trainer_losses` gives all of
them to the trainers of sentence-transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from visir.errors import ConfigurationError, raise_faults
from visir.training.settings import Count, Positive, Settings
from visir.training.similarities import (
    Candidates,
    FalseNegatives,
    VectorPairs,
    best_matches,
    candidates,
    cosines,
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


def symmetric_cross_entropy(logits: Tensor, anchor_rows: Tensor, false_negatives: FalseNegatives) -> Tensor:
    """The mean of two cross-entropies, along rows and along columns, where the right answer is on the diagonal."""
    if false_negatives == "masked":
        logits = logits.masked_fill(false_negative_pairs(anchor_rows), -torch.inf)
    return (cross_entropy(logits) + cross_entropy(logits.T)) / 2


def cross_entropy(logits: Tensor) -> Tensor:
    """The mean cross-entropy of the rows of (n, n or more) logits, where candidate i is the answer of query i."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


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
        losses = [self._mean(of) for of in candidates(pairs)]
        return (losses[0] + losses[1]) / 2

    def _mean(self, of: Candidates) -> Tensor:
        logits = self.temperature(of.scores).masked_fill(of.left_out(self.false_negatives), -torch.inf)
        if of.queries is None:
            return cross_entropy(logits)
        own = torch.arange(of.first, of.first + len(logits), device=logits.device)
        return of.mean(functional.cross_entropy(logits, own, reduction="none"))


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
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
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
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
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
        local_loss: In several processes, each computes the losses of its own pairs among the candidates of the whole
            batch, instead of all losses: less memory for scores, the same gradients up to rounding.
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


class FILIP(nn.Module):
    """Symmetric cross-entropy over fine-grained similarities (FILIP, Yao et al. 2021, equations 1 to 5)."""

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
        super().__init__()
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch of (n, t, d) vectors with zeros as padding, a scalar."""
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            matches = best_matches(precise(pairs.anchors), precise(pairs.positives))
        own = torch.arange(len(pairs.anchors), device=pairs.anchors.device)
        left_out = false_negative_pairs(pairs.anchor_rows) if self.false_negatives == "masked" else None
        losses = []
        for scores in matches:
            logits = self.temperature(scores)
            if left_out is not None:
                logits = logits.masked_fill(left_out, -torch.inf)
            losses.append(functional.cross_entropy(logits, own))
        return (losses[0] + losses[1]) / 2


# IFM: InfoNCE made harder by a budget that perturbs every similarity against its label.


class IFMSettings(Settings):
    """InfoNCE averaged with its perturbed self; see `IFM`. As `InfoNCESettings`, and

    Attributes:
        epsilon: The perturbation, in cosines.
    """

    name: Literal["ifm"] = "ifm"
    temperature: Positive | Literal["own"] = 0.05
    learn_temperature: bool = False
    false_negatives: FalseNegatives = "masked"
    epsilon: Positive = 0.1

    def build(self, own: OwnScale) -> IFM:
        """The loss."""
        start = own.temperature_of(self.temperature)
        return IFM(start, self.epsilon, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class IFM(nn.Module):
    """Implicit feature modification (Robinson et al. 2021; thesis, appendix 4.E.3), averaged with InfoNCE.

    With s the cosines, before dividing by τ the positive loses ε and every negative gains it:

        S'_ii = (s_ii − ε) / τ        S'_ij = (s_ij + ε) / τ   (j ≠ i)
        L = ½ · InfoNCE(S') + ½ · InfoNCE(S)

    both of them symmetric, with the same τ (a learnt one gets the gradient of both) and the same `false_negatives`. S'
    is the worst that moving every candidate of a query by a vector of length ε can do. The order among negatives stays;
    what changes is how much weight a query gets that is already answered: every negative's odds are multiplied by
    exp(2 ε / τ), 55 times at τ 0.05 and ε 0.1, and 5·10⁸ times at τ 0.05 and ε 0.5, where S' no longer tells answered
    queries from unanswered ones. The thesis tries ε ∈ {0.05, 0.1, 0.2, 0.5, 1} at learnt temperatures.

    The appendix prints the image-to-text sum with the indices of the text-to-image one; the columns and rows are meant,
    as in its InfoNCE. Robinson et al. perturb positives and negatives by budgets of their own; the thesis by one.
    """

    def __init__(
        self,
        temperature: float = 0.05,
        epsilon: float = 0.1,
        *,
        learnt: bool = False,
        false_negatives: FalseNegatives = "masked",
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.false_negatives = false_negatives
        self.temperature = Temperature(temperature, learnt=learnt)

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        plain = cosines(pairs)
        against = torch.full_like(plain, self.epsilon).fill_diagonal_(-self.epsilon)
        losses = [
            symmetric_cross_entropy(self.temperature(scores), pairs.anchor_rows, self.false_negatives)
            for scores in (plain, plain + against)
        ]
        return (losses[0] + losses[1]) / 2


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


Contrastive = Annotated[
    InfoNCESettings
    | TripletSettings
    | IFMSettings
    | SigmoidSettings
    | MultiPositiveSettings
    | CosineSettings
    | FILIPSettings,
    Field(discriminator="name"),
]
"""The contrastive losses; each builds its module from its settings."""


WITH_NEGATIVES = ("infonce", "triplet", "sigmoid", "multi-positive")
"""Those that take hard negatives."""


# How a reconstruction loss joins the contrastive one: as a second term, or as a constraint.

Join = Literal["dual", "constraint"]


Clamp = Literal["reading", "step"]
"""Where a multiplier is put into [0, 100]: whenever it is read, or itself after every step. See `Constraint`."""


_RATE, _MOMENTUM, _DAMPENING = 5e-3, 0.9, 0.9


_FIRST, _CEILING = 1.0, 100.0


class JoinSettings(Settings):
    """How an auxiliary loss joins the contrastive one; see `Dual` and `Constraint`."""

    # As a "constraint" or as a "dual" loss; `bound` is the constraint's η, `beta` the dual loss's β.
    join: Join = "constraint"
    beta: Positive = 1.0
    bound: Positive
    clamp: Clamp = "reading"  # the constraint's λ is put into [0, 100] at "reading" (as published) or at each "step"


class Dual(nn.Module):
    """A second term: β · L_rec (latent target decoding, eq. 7)."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss."""
        return self.beta * reconstruction


class Constraint(nn.Module):
    """A constraint L_rec ≤ η by a Lagrange multiplier: λ · (L_rec / η − 1) (latent target decoding, eq. 8 and 9)."""

    # The weights descend, λ *ascends*: after every update of the weights, `ascend` moves the multiplier along its
    # gradient L_rec / η − 1 by SGD with rate 0.005, momentum 0.9 and dampening 0.9, from 1 on, exactly as
    # `torch.optim.SGD(…, maximize=True)` does (the first gradient enters its velocity undampened). λ ∈ [0, 100].
    # The paper says "bounded between 0 and 100"; there are two readings, and they train differently:
    # - `clamp="reading"` (default): the multiplier moves freely; λ is its value put into the interval where it is read.
    #   The released code does this, and the published trajectories show it: replayed over the published reconstruction
    #   losses (every 100th step, interpolated) it follows the published λ of η = 0.2 with correlation 0.9996, the other
    #   reading with 0.33. While a constraint is met the multiplier sinks far below zero, and λ stays 0 after L_rec has
    #   gone back above η until it has climbed out: in the published run with η = 0.2, λ is 0 for 95 % of training. In
    #   effect it is a curriculum, reconstruction first and contrast alone later.
    # - `clamp="step"`: the multiplier itself is put back after each step (projected ascent, what "bounded" says). λ
    #   answers within a step when L_rec goes above η, and L_rec is held at η to the end.
    # Multiplier, velocity and the number of steps are buffers in float64: they travel with `state_dict`.

    multiplier: Tensor
    velocity: Tensor
    steps: Tensor

    def __init__(self, bound: float, *, clamp: Clamp = "reading") -> None:
        super().__init__()
        self.bound = bound
        self.clamp = clamp
        self.register_buffer("multiplier", torch.tensor(_FIRST, dtype=torch.float64))
        self.register_buffer("velocity", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("steps", torch.tensor(0))

    @property
    def value(self) -> float:
        """λ as it stands now."""
        return float(self._bounded())

    @property
    def unread(self) -> float | Tensor:
        """`value`, or on a GPU a tensor of it."""
        return self.value if self.multiplier.device.type == "cpu" else self._bounded()

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss; λ gets no gradient."""
        return self._bounded().to(reconstruction.dtype) * (reconstruction / self.bound - 1)

    def ascend(self, reconstruction: float) -> None:
        """One step of λ, on the reconstruction loss of the batch that the weights have just learnt from."""
        gradient = reconstruction / self.bound - 1
        moving = self.velocity.mul(_MOMENTUM).add(gradient, alpha=1 - _DAMPENING)
        self.velocity.copy_(torch.where(self.steps == 0, gradient, moving))
        self.multiplier.add_(self.velocity, alpha=_RATE)
        if self.clamp == "step":
            self.multiplier.clamp_(0.0, _CEILING)
        self.steps += 1

    def _bounded(self) -> Tensor:
        return self.multiplier.clamp(0.0, _CEILING)


# LTD: a caption's vector should still hold what a sentence encoder knows of the caption.


class LTDSettings(JoinSettings):
    """Latent target decoding; see `LTD`, and `JoinSettings` for the two ways in which it joins.

    Attributes:
        target: The sentence encoder whose vectors of the captions are decoded, as `visir.load` takes it.
        bound: The constraint's η, a mean of 1 − cosine.
        hidden: Width of the decoder's two hidden layers.
        shortcuts: Whether the targets know the synthetic shortcuts at the captions' ends. By default they do not: a
            decoder that has to say the shortcut again rewards what LTD is to prevent. The thesis's released code
            encodes the caption with its shortcut; with `true`, so does this: batch by batch, where numbers are new in
            every epoch (`shortcuts.shuffles = 0`), as it does too.
    """

    target: str = "st:all-MiniLM-L6-v2"
    bound: Positive = 0.2
    hidden: Count = 1024
    shortcuts: bool = False


class LTD(nn.Module):
    """Decodes the caption's latent target from its vector z_C with a three-layer ReLU network (LTD, eq. 5 and 6).

        ỹ = W₃ relu(W₂ relu(W₁ z_C + b₁) + b₂) + b₃        L_rec = mean over captions of 1 − cos(ỹ, y)

    y, (n, t), is the caption's vector from a sentence encoder that stays as it is, and ỹ only has to point its way. In
    [0, 2]; an untrained decoder begins at about 1. Equation 5 has no biases; the released code does, and so has this.

    z_C is the unit vector that is also contrasted, (n, d). The decoder is not used after training. Unlike a decoder of
    words it cannot fall back on a language model, which is the paper's point.
    """

    def __init__(self, dimension: int, target_width: int, settings: LTDSettings) -> None:
        super().__init__()
        layers = [
            nn.Linear(dimension, settings.hidden),
            nn.Linear(settings.hidden, settings.hidden),
            nn.Linear(settings.hidden, target_width),
        ]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)  # as released; PyTorch's default begins with smaller weights
        self.decoder = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The reconstruction loss of a batch, a scalar."""
        if pairs.targets is None:
            raise ConfigurationError(
                "LTD: this batch has no latent targets.",
                hint="one vector for each caption: `TrainingExamples.targets`; with sentence-transformers the "
                "column `label`",
                code="batch-no-latent-targets",
            )
        decoded = precise(self.decoder(pairs.positives))
        return 1 - functional.cosine_similarity(decoded, pairs.targets.to(decoded.dtype), dim=1).mean()


# ITD: a caption's vector should be enough to say the caption again, word by word.

_PADDING = 0


class ITDSettings(JoinSettings):
    """Input target decoding; see `ITD`, and `JoinSettings` for the two ways in which it joins.

    Attributes:
        bound: The constraint's η in nats per caption.
        words: Width of the decoder's word embeddings.
        min_count: Rarer words of the training captions become the unknown word.
        normalise_over: What the softmax runs over: the "vocabulary", as eq. 4 has it, or the "positions" of a caption,
            as the released code does, to which the published η = 6 belongs.
    """

    bound: Positive = 6.0
    words: Count = 300
    min_count: Count = 1
    normalise_over: Literal["vocabulary", "positions"] = "vocabulary"


class ITD(nn.Module):
    """Decodes the caption's words from its vector z_C with a one-layer GRU (latent target decoding, eq. 4, section 4).

    z_C, the unit vector that is also contrasted, is the GRU's initial state, so the state is as wide as the common
    space; it reads the word before (teacher forcing; embeddings of its own, from scratch) and gives a distribution over
    the vocabulary:

        L_rec = mean over captions of  −Σ_t log p(x_t | x_1 … x_{t−1}, z_C)

    x_0 is the start token, the last x_t the end token; padding counts nothing. In nats *per caption*: a sum over its
    tokens, as eq. 4 is and as the released code does, so a caption of 12 tokens over 9,000 words begins at about
    12 · ln 9000 = 109. A mean per token would meet the paper's bound η = 6 nearly at once (e⁶ is 403 words).

    The published bound does not carry over. The released decoder normalises its log-softmax over the *positions* of a
    caption instead of over the vocabulary (`dim=1` of (n, L, V)), so its "6" is not a likelihood of words. As one, 6
    nats are half a nat per token of a 12-token caption, far below any language model: z_C must spell the caption out,
    and until it does, λ climbs. Look at the reconstruction loss of a dual run before choosing a bound.

    `normalise_over = "positions"` is the released loss. With l_tw the logit of word w at position t (after the start
    token and t words):

        L_rec = mean over captions of  −Σ_t ( l_t,x(t+1) − log Σ_s exp l_s,x(t+1) )

    s runs over the L positions of the longest caption of the batch. Positions behind a caption's end have the state 0,
    and count: the loss of a caption depends on the others of its batch (with several processes, on those of its
    process, so that they do not compute what one process would). It asks *where* in the caption a word stands,
    not which word stands there: a decoder that gives all positions one logit has (tokens) · log L, of 12 tokens and
    L = 20 about 36. Here the decoder reads the words that the caption has; the released one reads and decodes them
    after a tenth is replaced and a tenth dropped.
    """

    def __init__(self, dimension: int, vocabulary_size: int, settings: ITDSettings) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, settings.words, padding_idx=_PADDING)
        self.gru = nn.GRU(settings.words, dimension, batch_first=True)
        self.vocabulary = nn.Linear(dimension, vocabulary_size)
        self._over_positions = settings.normalise_over == "positions"

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The reconstruction loss of a batch, a scalar."""
        if pairs.tokens is None:
            raise ConfigurationError(
                "ITD: this batch has no caption tokens.",
                hint="give `TrainingExamples.tokens`, padded word ids per caption",
                code="batch-no-caption-tokens",
            )
        if self._over_positions:
            return self._by_position(pairs.tokens, pairs.positives)
        inputs, targets = pairs.tokens[:, :-1], pairs.tokens[:, 1:]
        lengths = (targets != _PADDING).sum(1).cpu()  # where the packing wants them
        # Packed, padding gets no state and no softmax over the vocabulary, which is most of the work. Both packs have
        # the same order.
        states, _ = self.gru(_packed(self.words(inputs), lengths), pairs.positives[None].contiguous())
        logits = precise(self.vocabulary(states.data))
        return functional.cross_entropy(logits, _packed(targets, lengths).data, reduction="sum") / len(targets)

    def _by_position(self, tokens: Tensor, texts: Tensor) -> Tensor:
        lengths = (tokens != _PADDING).sum(1).cpu()
        tokens = tokens[:, : int(lengths.max())]
        states, _ = self.gru(_packed(self.words(tokens), lengths), texts[None].contiguous())
        hidden, _ = pad_packed_sequence(states, batch_first=True)  # (n, L, d), 0 behind the end
        targets = tokens[:, 1:]
        # Only the logits of the words that are said: (n, L, d) times (n, d, L - 1), position by word.
        logits = torch.baddbmm(
            self.vocabulary.bias[targets][:, None], hidden, self.vocabulary.weight[targets].transpose(1, 2)
        )
        scores = functional.log_softmax(precise(logits), dim=1).diagonal(dim1=1, dim2=2)
        return -(scores * (targets != _PADDING)).sum() / len(targets)


def _packed(padded: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)


class Auxiliary(Settings):
    """Auxiliary losses beside the contrastive one: none, one or both."""

    ltd: LTDSettings | None = None
    itd: ITDSettings | None = None


class Objective(nn.Module):
    """L = contrastive + Σ over the auxiliary losses of β · L_rec or λ · (L_rec / η − 1)."""

    # `auxiliary` and `joins` have the same keys, which name the parts of the loss. Weights of decoders and a learnt
    # temperature are its parameters; multipliers are buffers. It is no part of the model that is kept.

    def __init__(
        self,
        contrastive: nn.Module,
        auxiliary: Mapping[str, nn.Module] | None = None,
        joins: Mapping[str, Dual | Constraint] | None = None,
        *,
        local_loss: bool = False,
    ) -> None:
        super().__init__()
        self.local_loss = local_loss
        self.contrastive = contrastive
        self.auxiliary = nn.ModuleDict(dict(auxiliary or {}))
        self.joins = nn.ModuleDict(dict(joins or {}))

    def forward(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """The loss of a batch."""
        # With several processes, `pairs` are those of this one and `everyone` those of all, whose vectors are each
        # other's negatives: the contrastive loss is of everyone, in every process alike (or of the process's own pairs
        # among everyone's, where `everyone.queries` says so), and each reconstruction loss is of `pairs` times
        # `weight`, which is (this process's share of the pairs) × (number of processes). So the mean of total and parts
        # over the processes is what one process with the whole batch computes.
        # The parts are "contrastive" and, for each auxiliary loss, `weight` · L_rec before β or λ, all detached.
        total: Tensor = self.contrastive(pairs if everyone is None else everyone)
        parts = {"contrastive": total.detach()}
        for name, reconstruct in self.auxiliary.items():
            reconstruction = weight * reconstruct(pairs)
            parts[name] = reconstruction.detach()
            total = total + self.joins[name](reconstruction)
        return Losses(total, parts)

    def ascend(self, parts: Mapping[str, float]) -> None:
        """Move every multiplier one step; call it after each update of the weights."""
        # `parts` are those of `forward`, averaged over the processes and the batches of the update, so that the
        # multiplier is the same in every process.
        for name, join in self.joins.items():
            if isinstance(join, Constraint):
                join.ascend(parts[name])

    def facts(self) -> dict[str, float | Tensor]:
        """What moves besides the weights, for the log: "temperature", "bias", "ltd multiplier", … when there."""
        # On a device other than the CPU they are tensors of their own there, which do not move on with the weights: to
        # read them would be to wait for the device.
        facts: dict[str, float | Tensor] = {}
        temperature, bias = getattr(self.contrastive, "temperature", None), getattr(self.contrastive, "bias", None)
        if isinstance(temperature, Temperature):
            facts["temperature"] = temperature.unread
        if isinstance(bias, Tensor):
            facts["bias"] = float(bias.detach()) if bias.device.type == "cpu" else bias.detach().clone()
        for name, join in self.joins.items():
            if isinstance(join, Constraint):
                facts[f"{name} multiplier"] = join.unread
        return facts


def build_objective(
    contrastive: Contrastive,
    auxiliary: Auxiliary,
    *,
    dimension: int,
    target_width: int | None,
    vocabulary: int | None,
    own_temperature: float | None,
    own_bias: float | None = None,
) -> Objective:
    """The objective that a recipe describes; decoders draw their first weights from torch's global generator."""
    faults = []
    if getattr(contrastive, "temperature", None) == "own" and own_temperature is None:
        faults.append(
            'objective.temperature = "own": this model comes without a temperature. Pretrained encoders with one are '
            "CLIP, AltCLIP, GroupViT, ALIGN, SigLIP and open_clip's models; BLIP, sentence encoders and networks from "
            "scratch have none. Give a number instead, e.g. 0.05 (LTD) or 0.07 (VSE++)."
        )
    if getattr(contrastive, "bias", None) == "own" and own_bias is None:
        faults.append(
            'objective.bias = "own": this model comes without a bias. SigLIP and its kin have one. Give a number '
            "instead, e.g. -10 (SigLIP begins with it)."
        )
    if auxiliary.ltd is not None and target_width is None:
        faults.append("auxiliary.ltd: there are no latent targets to decode; give `target_width` and the targets.")
    if auxiliary.itd is not None and vocabulary is None:
        faults.append("auxiliary.itd: there are no caption tokens to decode; give `vocabulary` and the tokens.")
    raise_faults(ConfigurationError, "objective", faults)
    modules: dict[str, nn.Module] = {}
    joins: dict[str, Dual | Constraint] = {}
    if auxiliary.ltd is not None and target_width is not None:
        modules["ltd"], joins["ltd"] = LTD(dimension, target_width, auxiliary.ltd), _join(auxiliary.ltd)
    if auxiliary.itd is not None and vocabulary is not None:
        modules["itd"], joins["itd"] = ITD(dimension, vocabulary, auxiliary.itd), _join(auxiliary.itd)
    local_loss = getattr(contrastive, "local_loss", False)
    return Objective(contrastive.build(OwnScale(own_temperature, own_bias)), modules, joins, local_loss=local_loss)


def _join(settings: JoinSettings) -> Dual | Constraint:
    return Dual(settings.beta) if settings.join == "dual" else Constraint(settings.bound, clamp=settings.clamp)


# The learner of sparse heads: one head for both sides, which learns to rank as the dense vectors do.

# What is made small: sparse scores that rank as dense ones do, with few and light terms (thesis eq. 3.7).


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
