"""A batch as vectors, and how alike they are: what every loss of `visir.training.losses` is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from visir.errors import EmbeddingError


@dataclass(frozen=True)
class OwnQueries:
    """The queries of a batch whose losses one of several processes computes."""

    first: int  # the row of the first one
    count: int  # how many there are, one after the other
    processes: int  # how many processes share the batch


@dataclass(frozen=True, eq=False)
class VectorPairs:
    """A batch of pairs as vectors; row i of the anchors belongs to row i of the positives."""

    anchors: Tensor  # (n, d) vectors; of length 1 in the common space of two towers
    positives: Tensor  # (n, d) vectors
    anchor_rows: Tensor  # (n,) integers, equal for positives of one anchor
    targets: Tensor | None = None  # (n, t) latent targets of the positives, or None
    tokens: Tensor | None = None  # (n, L) token ids of the positives, 0 is padding, or None
    classes: Tensor | None = None  # (n,) integers, what the positives are beyond the anchor they belong to, or None
    rows: Tensor | None = None  # (n,) integers, which pairs of the split they are, or None
    # (n, h, d) vectors of hard negatives for the anchors, on the side of the positives, or None.
    negatives: Tensor | None = None
    negative_rows: Tensor | None = None  # (n, h) integers, the anchors to which they belong; -1 is none
    # (n, h, d) vectors of hard negatives for the positives, on the side of the anchors, or None.
    anchor_negatives: Tensor | None = None
    anchor_negative_rows: Tensor | None = None  # (n, h) integers, which anchors they are
    # Those whose losses are wanted, among all n candidates. The loss is then the sum of theirs times the number of
    # processes, divided by n, so that its mean over the processes is that of the batch. None: all.
    queries: OwnQueries | None = None

    def split(self) -> VectorPairs:
        """The same, from (n, (1 + h) · d) vectors of a side that has hard negatives: those stand behind each pair's."""
        anchors, anchor_negatives = _own_and_hard(self.anchors, self.anchor_negative_rows)
        positives, negatives = _own_and_hard(self.positives, self.negative_rows)
        return replace(
            self, anchors=anchors, positives=positives, negatives=negatives, anchor_negatives=anchor_negatives
        )


def _own_and_hard(vectors: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor | None]:
    if rows is None:
        return vectors, None
    own, *hard = vectors.split(vectors.shape[1] // (1 + rows.shape[1]), dim=1)
    return own, torch.stack(hard, dim=1)


# False negatives: captions of one image that fell into the same batch.

FalseNegatives = Literal["masked", "kept"]
"""What an objective does with captions of the same image in a batch.

- "masked" (every default): such a pair is neither a positive nor a negative.
- "kept": such a pair is a negative like every other in the batch. The papers do this: neither LTD nor VSE++ looks at
  which image a caption in the batch belongs to. Ask for it to reproduce them.
"""


def false_negative_pairs(anchor_rows: Tensor) -> Tensor:
    """Find the different captions of one image."""
    # anchor_rows: (n,) the image of each caption.
    # Returns: (n, n) booleans: whether i and j are different captions of one image.
    same = anchor_rows[:, None] == anchor_rows[None, :]
    same.fill_diagonal_(False)
    return same


# Cosines and dot products.


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
