"""Hard negatives as candidates of InfoNCE, IFM and the triplet loss: equations in loops, and sentence-transformers."""

from __future__ import annotations

import cmath
from functools import partial

import numpy as np
import pytest
import torch
from equations import assert_is, batch, cosines, dot, pairs, unit

from visir.training.losses import InfoNCE, Triplet
from visir.training.objective import IFM


def hard_batch(seed: int, n: int = 5, d: int = 3):
    images, texts, owners = batch(seed, n=n, d=d)
    rng = np.random.default_rng(seed + 100)
    hard, hard_images = unit(rng, 2 * n, d).reshape(n, 2, d), unit(rng, n, d).reshape(n, 1, d)
    rows = np.where(rng.random((n, 2)) < 0.5, -1, rng.integers(0, 3, (n, 2)))
    return images, texts, owners, hard, rows, hard_images, rng.integers(0, 4, (n, 1))


def flat(hard, rows):
    return [vector for vectors in hard for vector in vectors], [int(owner) for of in rows for owner in of]


def others(i, scores, owners, query, hard, rows, false_negatives):
    """The scores of what query i is not to find."""
    kept = [j for j in range(len(owners)) if j != i and (false_negatives == "kept" or owners[j] != owners[i])]
    vectors, belong = flat(hard, rows)
    more = [dot(query, vector) for vector, owner in zip(vectors, belong, strict=True) if owner != owners[i]]
    return [scores[j] for j in kept] + more


@pytest.mark.parametrize("epsilon", [None, 0.3])
@pytest.mark.parametrize("false_negatives", ["masked", "kept"])
def test_infonce_and_ifm_over_the_batch_and_the_hard_ones(false_negatives: str, epsilon: float | None) -> None:
    images, texts, owners, hard, rows, hard_images, of = hard_batch(3)

    def reference(i, t, h, a):
        moves = [0.0] if epsilon is None else [0.0, epsilon]
        return sum(moved(move, i, t, h, a) for move in moves) / len(moves)

    def moved(move, i, t, h, a):
        total, table = 0.0, cosines(i, t)
        for row in range(len(i)):
            own = cmath.exp((table[row][row] - move) / 0.2)
            for query, scores, more, belong in (
                (i[row], table[row], h, rows),
                (t[row], [line[row] for line in table], a, of),
            ):
                wrong = others(row, scores, owners, query, more, belong, false_negatives)
                total -= cmath.log(own / (own + sum(cmath.exp((one + move) / 0.2) for one in wrong))) / 2
        return total / len(i)

    kind = InfoNCE if epsilon is None else partial(IFM, epsilon=epsilon)
    loss = kind(0.2, false_negatives=false_negatives)
    assert_is(
        reference,
        lambda i, t, h, a: loss(
            pairs(i, t, owners, negatives=h, negative_rows=rows, anchor_negatives=a, anchor_negative_rows=of)
        ),
        images,
        texts,
        hard,
        hard_images,
    )


@pytest.mark.parametrize("which", ["hardest", "sum"])
def test_triplet_over_the_batch_and_the_hard_ones(which: str) -> None:
    images, texts, owners, hard, rows, hard_images, of = hard_batch(5)

    def reference(i, t, h, a):
        total, table = 0.0, cosines(i, t)
        for row in range(len(i)):
            for query, scores, more, belong in (
                (i[row], table[row], h, rows),
                (t[row], [line[row] for line in table], a, of),
            ):
                costs = [0.2 + one - table[row][row] for one in others(row, scores, owners, query, more, belong, "")]
                hinges = [one for one in costs if one.real > 0] or [0.0]
                total += sum(hinges) if which == "sum" else max(hinges, key=lambda one: one.real)
        return total / (2 * len(i))

    loss = Triplet(0.2, negatives=which)
    assert_is(
        reference,
        lambda i, t, h, a: loss(
            pairs(i, t, owners, negatives=h, negative_rows=rows, anchor_negatives=a, anchor_negative_rows=of)
        ),
        images,
        texts,
        hard,
        hard_images,
    )


def test_hard_captions_are_those_of_sentence_transformers() -> None:
    """`MultipleNegativesRankingLoss` with a column of negatives: the images' half of the loss."""
    library = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    images, texts, _, hard, _, _, _ = hard_batch(11, n=6, d=4)
    from sentence_transformers.util import dot_score

    theirs = library.MultipleNegativesRankingLoss(None, scale=5.0, similarity_fct=dot_score)
    # Vectors are of length 1 already: dot products, so that their gradients are not projected., hard[:, 1])]
    columns = [torch.tensor(one, requires_grad=True) for one in (images, texts, hard[:, 0], hard[:, 1])]
    value = theirs.compute_loss_from_embeddings(columns, labels=None)
    value.backward()
    i, t, h = (torch.tensor(one, requires_grad=True) for one in (images, texts, hard))
    rows = -np.ones((6, 2), np.int64)
    # Ours averages both directions: twice ours less the captions' half, which has no hard negatives, is theirs.
    both = InfoNCE(0.2, false_negatives="kept")(pairs(i, t, negatives=h, negative_rows=rows))
    captions_half = torch.nn.functional.cross_entropy((i @ t.T / 0.2).T, torch.arange(6))
    found = 2 * both - captions_half
    found.backward()
    assert float(found.detach()) == pytest.approx(float(value.detach()), rel=0, abs=1e-9)
    for ours, other in ((i, columns[0]), (t, columns[1])):
        torch.testing.assert_close(ours.grad, other.grad, rtol=0, atol=1e-9)
    torch.testing.assert_close(h.grad, torch.stack([columns[2].grad, columns[3].grad], dim=1), rtol=0, atol=1e-9)
