"""InfoNCE: a caption should find its image among the batch's images, and the image its caption among the captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from visir.errors import EmbeddingError
from visir.training.objectives.base import (
    FalseNegatives,
    OwnQueries,
    OwnScale,
    Temperature,
    VectorPairs,
    cosines,
    cross_entropy,
    false_negative_pairs,
    precise,
    products,
    symmetric_cross_entropy,
)
from visir.training.settings import Settings
from visir.training.sides import Positive

# The candidates of each query of a batch: the other side of the batch, and the hard negatives behind it.


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the queries of one direction choose from."""

    scores: Tensor  # (q, n + h) cosines: with the n of the batch, then with h hard negatives
    # (q, n + h) booleans: other positives of the same anchor, in the batch or among the hard negatives.
    siblings: Tensor
    batch: int  # n
    queries: OwnQueries | None = None  # which rows of the batch the q queries are; None: all n

    @property
    def first(self) -> int:
        """The candidate that is the right answer of query 0; the next is that of query 1, and so on."""
        return 0 if self.queries is None else self.queries.first

    @property
    def right(self) -> Tensor:
        """(q, n + h) booleans: the right answer of each query."""
        right = torch.zeros_like(self.siblings)
        _diagonal(right, self.first).fill_(True)
        return right

    @property
    def of_right(self) -> Tensor:
        """(q,) scores of the right answers."""
        return _diagonal(self.scores, self.first)

    def mean(self, losses: Tensor) -> Tensor:
        """The mean of (q,) losses; of a part of the queries, such that the mean over the processes is that of all."""
        return losses.mean() if self.queries is None else self.share(losses.sum())

    def share(self, total: Tensor) -> Tensor:
        """A sum over the queries, divided by n; of a part of them, such that the mean over the processes is that."""
        return total / self.batch * (1 if self.queries is None else self.queries.processes)

    def left_out(self, false_negatives: FalseNegatives) -> Tensor:
        """(q, n + h) booleans: the candidates that a query does not see."""
        # A hard negative that belongs to the query's own anchor is right, and never counts as wrong; what is done with
        # siblings of the batch is said by `false_negatives`.
        if false_negatives == "masked":
            return self.siblings
        left_out = self.siblings.clone()
        left_out[:, : self.batch] = False
        return left_out


def candidates(pairs: VectorPairs) -> tuple[Candidates, Candidates]:
    """The candidates of the anchors (all positives), and those of the positives (all anchors)."""
    of_anchors = _of_side(pairs, pairs.anchors, pairs.positives, pairs.negatives, pairs.negative_rows)
    # All queries: the same products in both directions.
    scores = of_anchors.scores[:, : of_anchors.batch].T if pairs.queries is None else None
    hard, rows = pairs.anchor_negatives, pairs.anchor_negative_rows
    return of_anchors, _of_side(pairs, pairs.positives, pairs.anchors, hard, rows, scores)


def _of_side(
    pairs: VectorPairs,
    queries: Tensor,
    others: Tensor,
    hard: Tensor | None,
    hard_rows: Tensor | None,
    scores: Tensor | None = None,
) -> Candidates:
    """The candidates of one side's queries: the other side, and hard negatives."""
    own, rows = pairs.queries, pairs.anchor_rows
    if own is not None:
        span = slice(own.first, own.first + own.count)
        queries, rows = queries[span], rows[span]
    scores = products(queries, others) if scores is None else scores
    siblings = rows[:, None] == pairs.anchor_rows[None, :]
    _diagonal(siblings, 0 if own is None else own.first).fill_(False)
    if hard is None or hard_rows is None:
        return Candidates(scores, siblings, len(others), own)
    more, right = products(queries, hard.flatten(0, 1)), rows[:, None] == hard_rows.reshape(1, -1)
    scores, siblings = torch.cat([scores, more], dim=1), torch.cat([siblings, right], dim=1)
    return Candidates(scores, siblings, len(others), own)


def _diagonal(matrix: Tensor, first: int) -> Tensor:
    """(q,) of each row the element of its own column, as a view: column `first` of row 0, and so on."""
    return matrix[:, first : first + len(matrix)].diagonal()


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
    other captions of the same image with "masked" (`visir.training.objectives.base.FalseNegatives`).

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


# How well two sets of vectors match, both ways: each vector looks for its best one on the other side.


class BestMatches(NamedTuple):
    """Late interaction of every anchor with every positive."""

    # (n, m), the mean over an anchor's vectors of the greatest dot product with one of the positive's.
    of_anchors: Tensor
    # (m, n), the mean over a positive's vectors of the greatest dot product with one of the anchor's.
    of_positives: Tensor


def best_matches(anchors: Tensor, positives: Tensor) -> BestMatches:
    """Compare sets of vectors; rows of zeros at the end of a set are padding, and are no part of it."""
    # Padding costs nothing: the positives are taken vector by vector, the longest sets first, and at each place only
    # those that still have one are compared. 128 anchors of 49 vectors with 128 captions of 15, in 128 dimensions, take
    # 0.06 s forwards and 0.16 s backwards on one core (plain tensor operations over the padded sets: 0.9 and 0.9 s).
    # The similarities, n · t · m · t' numbers, are kept for the backward pass, when there is one.
    # Where several vectors match equally well, the gradient goes to each of them: exact duplicates count in full.
    # anchors: (n, t, d).
    anchor_counts, positive_counts = count_vectors(anchors), count_vectors(positives)
    _check_present({"anchors": anchor_counts, "positives": positive_counts})
    counts, order = positive_counts.sort(descending=True, stable=True)
    longest = int(counts[0])
    present = (counts[None, :] > torch.arange(longest, device=counts.device)[:, None]).sum(1).tolist()
    places = torch.arange(anchors.shape[1], device=counts.device)[:, None]
    padding = places >= anchor_counts if int(anchor_counts.min()) < anchors.shape[1] else None
    of_anchors, of_positives = _Sums.apply(anchors, positives[order], padding, present)
    back = order.argsort()
    return BestMatches(
        of_anchors[:, back] / anchor_counts.to(anchors.dtype)[:, None],
        of_positives[back] / positive_counts.to(positives.dtype)[:, None],
    )


def count_vectors(sets: Tensor) -> Tensor:
    """(n,) how many vectors of each set are no padding, for sets (n, t, d)."""
    return sets.detach().ne(0).any(-1).sum(-1)


def _check_present(sides: Mapping[str, Tensor]) -> None:
    faults = {side: (counts == 0).nonzero().flatten().tolist() for side, counts in sides.items()}
    if any(faults.values()):
        named = "; ".join(
            f"{side}: row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:8]))}{', …' if len(rows) > 8 else ''}"
            for side, rows in faults.items()
            if rows
        )
        raise EmbeddingError(
            f"sets without vectors, which match nothing ({named}): all of their vectors are zeros.",
            hint="leave these items out, or see why their vectors are zeros",
            code="vectors-zeros",
        )


class _Sums(Function):
    """The sums of the greatest dot products both ways, for positives whose counts fall."""

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, positives: Tensor, padding: Tensor | None, present: list[int]
    ) -> tuple[Tensor, Tensor]:
        n, t, d = anchors.shape
        # The anchors run along the fastest axis, so that every maximum is one pass over contiguous memory.
        across = anchors.permute(2, 1, 0).reshape(d, t * n)
        best = anchors.new_full((len(positives), t, n), -torch.inf)
        of_positives = anchors.new_zeros(len(positives), n)
        saved: list[Tensor] = []
        for place, some in enumerate(present):
            products = (positives[:some, place] @ across).view(some, t, n)
            if padding is not None:
                products.masked_fill_(padding, -torch.inf)
            greatest = products.amax(1)
            of_positives[:some] += greatest
            torch.maximum(best[:some], products, out=best[:some])
            if any(ctx.needs_input_grad):
                saved += [products, greatest]
        ctx.save_for_backward(anchors, positives, padding, best, *saved)
        ctx.present = present
        return (best if padding is None else best.masked_fill(padding, 0.0)).sum(1).T, of_positives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        anchors, positives, padding, best, *saved = ctx.saved_tensors
        n, t, d = anchors.shape
        across = anchors.permute(2, 1, 0).reshape(d, t * n)
        of_anchors = gradients[0].T.contiguous()[:, None, :]
        if padding is not None:
            of_anchors = of_anchors * ~padding
        to_across, to_positives = torch.zeros_like(across), torch.zeros_like(positives)
        for place, some in enumerate(ctx.present):
            products, greatest = saved[2 * place], saved[2 * place + 1]
            to_products = (products == greatest[:, None, :]).to(products.dtype).mul_(gradients[1][:some, None, :])
            to_products += (products == best[:some]) * of_anchors[:some]
            flat = to_products.view(some, t * n)
            to_across.addmm_(positives[:some, place].T, flat)
            to_positives[:some, place] = flat @ across.T
        return to_across.view(d, t, n).permute(2, 1, 0), to_positives, None, None


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
