"""The triplet loss against VSE++'s equations in loops, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from equations import among, assert_is, batch, cosines, pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.training.losses import Triplet


def reference(images, texts, owners, margin, negatives, false_negatives, reduction):
    score, n, total = cosines(images, texts), len(images), 0.0
    for i in range(n):
        for candidates in ([score[i][j] for j in among(i, owners, false_negatives) if j != i],
                           [score[j][i] for j in among(i, owners, false_negatives) if j != i]):  # fmt: skip
            costs = [margin + one - score[i][i] for one in candidates]
            hinges = [one if one.real > 0 else 0.0 for one in costs] or [0.0]
            total += max(hinges, key=lambda one: one.real) if negatives == "hardest" else sum(hinges)
    return total / (2 * n) if reduction == "mean" else total


EVERY = [
    (negatives, false_negatives, reduction)
    for negatives in ("hardest", "sum")
    for false_negatives in ("masked", "kept")
    for reduction in ("mean", "sum")
]


@pytest.mark.parametrize(("negatives", "false_negatives", "reduction"), EVERY)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), margin=st.floats(0.05, 1.0))
def test_value_and_gradient_are_the_equation(negatives, false_negatives, reduction, seed, margin):
    images, texts, owners = batch(seed, n=6, d=3)
    objective = Triplet(margin, negatives=negatives, false_negatives=false_negatives, reduction=reduction)
    assert_is(
        lambda i, t: complex(reference(i, t, owners, margin, negatives, false_negatives, reduction)),
        lambda i, t: objective(pairs(i, t, owners)),
        images,
        texts,
    )


def test_worked_by_hand():
    cosine = torch.tensor([[0.8, 0.7, 0.1], [0.9, 0.5, 0.4], [0.3, 0.4, 0.1]], dtype=torch.float64)
    # margin 0.2, each hinge is s − s_own + 0.2
    # Images as queries:   1: .7−.8+.2 = .1, .1−.8+.2 < 0      2: .9−.5+.2 = .6, .4−.5+.2 = .1   3: .3−.1+.2 = .4, .5
    # Captions as queries: 1: .9−.8+.2 = .3, .3−.8+.2 < 0      2: .7−.5+.2 = .4, .4−.5+.2 = .1   3: .1−.1+.2 = .2, .5
    eye = torch.eye(3, dtype=torch.float64)
    given_ = pairs(cosine, eye)  # images @ eyeᵀ are these cosines
    assert float(Triplet()(given_)) == pytest.approx((0.1 + 0.6 + 0.5 + 0.3 + 0.4 + 0.5) / 6, abs=1e-12)
    assert float(Triplet(reduction="sum")(given_)) == pytest.approx(2.4, abs=1e-12)
    assert float(Triplet(negatives="sum")(given_)) == pytest.approx((0.1 + 0.7 + 0.9 + 0.3 + 0.5 + 0.7) / 6, abs=1e-12)
    # The first two pairs are false_negatives: each has the third alone as a negative.
    false_negatives = pairs(cosine, eye, [5, 5, 6])
    assert float(Triplet()(false_negatives)) == pytest.approx((0 + 0.1 + 0.5 + 0 + 0.1 + 0.5) / 6, abs=1e-12)
    assert float(Triplet(false_negatives="kept")(false_negatives)) == pytest.approx(2.4 / 6, abs=1e-12)


def test_a_query_without_negatives_costs_nothing_and_has_a_finite_gradient():
    images, texts, _ = batch(0, n=4)
    leaf = torch.tensor(images, requires_grad=True)
    loss = Triplet()(pairs(leaf, texts, [1, 1, 1, 1]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    np.testing.assert_array_equal(leaf.grad.numpy(), 0.0)
