"""Several positives against the equations in loops, and against InfoNCE where there is only one."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch
from equations import assert_is, batch, cosines, dot, pairs, unit
from torch.nn import functional

from visir.training.losses import InfoNCE, MultiPositive


def one_way(scores, owners, demand, extra, extra_owners):
    """Khosla et al. 2020, eq. 2 ("every") and eq. 3 ("any"), for queries of one modality over those of the other."""
    total = 0.0
    for i, row in enumerate(scores):
        others = [value for value, owner in zip(extra[i], extra_owners, strict=True) if owner != owners[i]]
        everything = sum(cmath.exp(one) for one in [*row, *others])
        right = [cmath.exp(one) / everything for one, owner in zip(row, owners, strict=True) if owner == owners[i]]
        if demand == "every":
            total -= sum(cmath.log(one) for one in right) / len(right)
        else:
            total -= cmath.log(sum(right) / len(right))
    return total / len(scores)


def reference(images, texts, owners, temperature, demand, hard=(), hard_owners=()):
    scores = [[one / temperature for one in row] for row in cosines(images, texts)]
    flat = [vector for vectors in hard for vector in vectors]
    flat_owners = [owner for rows in hard_owners for owner in rows]
    more = [[dot(image, vector) / temperature for vector in flat] for image in images]
    turned = [list(column) for column in zip(*scores, strict=True)]
    none = [[] for _ in texts]
    return (one_way(scores, owners, demand, more, flat_owners) + one_way(turned, owners, demand, none, [])) / 2


@pytest.mark.parametrize("demand", ["every", "any"])
@pytest.mark.parametrize("seed", [0, 3, 8])
def test_value_and_gradients_are_the_equation(demand: str, seed: int) -> None:
    images, texts, owners = batch(seed, n=7, d=3)
    assert_is(
        lambda i, t: reference(i, t, owners, 0.2, demand),
        lambda i, t: MultiPositive(0.2, demand=demand)(pairs(i, t, owners)),
        images,
        texts,
    )


@pytest.mark.parametrize("demand", ["every", "any"])
def test_hard_negatives_are_candidates_but_for_their_own_image(demand: str) -> None:
    images, texts, owners = batch(4, n=5, d=3)
    rng = np.random.default_rng(2)
    hard = unit(rng, 10, 3).reshape(5, 2, 3)
    rows = np.where(rng.random((5, 2)) < 0.4, -1, rng.integers(0, 3, (5, 2)))
    assert_is(
        lambda i, t, h: reference(i, t, owners, 0.3, demand, h, rows),
        lambda i, t, h: MultiPositive(0.3, demand=demand)(pairs(i, t, owners, negatives=h, negative_rows=rows)),
        images,
        texts,
        hard,
    )


@pytest.mark.parametrize("demand", ["every", "any"])
def test_with_one_caption_for_an_image_it_is_infonce(demand: str) -> None:
    images, texts, _ = batch(6)
    found = MultiPositive(0.1, demand=demand)(pairs(images, texts))
    assert float(found.detach()) == pytest.approx(float(InfoNCE(0.1)(pairs(images, texts)).detach()), abs=1e-12)


def test_every_is_a_cross_entropy_with_soft_labels() -> None:
    # The referee is torch's own cross-entropy with probabilities as targets.
    images, texts, owners = batch(9, n=8)
    logits = torch.tensor(images @ texts.T / 0.2)
    same = torch.tensor(owners[:, None] == owners[None, :]).double()
    labels = same / same.sum(1, keepdim=True)
    expected = (functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)) / 2
    found = MultiPositive(0.2)(pairs(images, texts, owners))
    assert float(found.detach()) == pytest.approx(float(expected), abs=1e-12)


def test_worked_by_hand() -> None:
    # Two captions of one image, both on it, τ = 1: each has probability one half, so "every" costs log 2 and "any"
    # nothing beyond it: −log((½ + ½) / 2).
    point = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    for demand in ("every", "any"):
        loss = MultiPositive(1.0, demand=demand)(pairs(point, point, [4, 4]))
        assert float(loss.detach()) == pytest.approx(math.log(2), abs=1e-12)
    apart = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    # The images see captions at cosines 1 and 0: "every" wants both, "any" is served by one.
    far = math.log(1 + math.e) - 0.5
    assert float(MultiPositive(1.0)(pairs(apart, apart, [4, 4])).detach()) == pytest.approx(far, abs=1e-12)
    assert float(MultiPositive(1.0, demand="any")(pairs(apart, apart, [4, 4])).detach()) == pytest.approx(math.log(2))
