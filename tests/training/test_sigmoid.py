"""The sigmoid loss against its equation written out in loops, and against open_clip's own."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch
from equations import assert_is, batch, cosines, dot, pairs, unit

from visir.training.losses import Sigmoid


def log_sigmoid(x):
    return -cmath.log(1 + cmath.exp(-x))


def reference(images, texts, owners, scale, bias, siblings, hard=(), hard_owners=(), hard_images=(), hard_of=()):
    """Zhai et al. 2023, eq. 1, one pair at a time; hard negatives are further pairs that do not belong together."""
    total = 0.0
    for i, row in enumerate(cosines(images, texts)):
        for j, cosine in enumerate(row):
            if i != j and owners[i] == owners[j] and siblings == "masked":
                continue
            belongs = i == j or (siblings == "positives" and owners[i] == owners[j])
            total -= log_sigmoid((1 if belongs else -1) * (scale * cosine + bias))
        for vectors, rows in zip(hard, hard_owners, strict=True):
            for vector, owner in zip(vectors, rows, strict=True):
                if owner != owners[i]:
                    total -= log_sigmoid(-(scale * dot(images[i], vector) + bias))
        for vectors, rows in zip(hard_images, hard_of, strict=True):
            for vector, owner in zip(vectors, rows, strict=True):
                if owner != owners[i]:
                    total -= log_sigmoid(-(scale * dot(texts[i], vector) + bias))
    return total / len(images)


@pytest.mark.parametrize("siblings", ["masked", "kept", "positives"])
@pytest.mark.parametrize(("temperature", "bias"), [(0.1, -10.0), (0.5, 1.5)])
def test_value_and_gradients_are_the_equation(siblings: str, temperature: float, bias: float) -> None:
    images, texts, owners = batch(3, n=6, d=3)
    loss = Sigmoid(temperature, bias, false_negatives=siblings)
    assert_is(
        lambda i, t: reference(i, t, owners, 1 / temperature, bias, siblings),
        lambda i, t: loss(pairs(i, t, owners)),
        images,
        texts,
    )


def test_scale_and_bias_have_the_gradients_of_the_equation() -> None:
    images, texts, owners = batch(5)
    loss = Sigmoid(0.2, -1.0)
    loss(pairs(images, texts, owners)).backward()
    step = 1e-30
    log_scale = math.log(5.0)
    by_scale = reference(images.tolist(), texts.tolist(), owners, cmath.exp(log_scale + step * 1j), -1.0, "masked")
    by_bias = reference(images.tolist(), texts.tolist(), owners, 5.0, -1.0 + step * 1j, "masked")
    assert float(loss.temperature.log_scale.grad) == pytest.approx(by_scale.imag / step, rel=0, abs=1e-9)
    assert float(loss.bias.grad) == pytest.approx(by_bias.imag / step, rel=0, abs=1e-9)


def test_hard_negatives_are_pairs_that_do_not_belong() -> None:
    images, texts, owners = batch(7, n=5, d=3)
    rng = np.random.default_rng(1)
    hard, hard_images = unit(rng, 10, 3).reshape(5, 2, 3), unit(rng, 5, 3).reshape(5, 1, 3)
    rows = np.where(rng.random((5, 2)) < 0.5, -1, rng.integers(0, 3, (5, 2)))
    of = rng.integers(0, 4, (5, 1))
    loss = Sigmoid(0.2, -2.0)
    assert_is(
        lambda i, t, h, a: reference(i, t, owners, 5.0, -2.0, "masked", h, rows, a, of),
        lambda i, t, h, a: loss(
            pairs(i, t, owners, negatives=h, negative_rows=rows, anchor_negatives=a, anchor_negative_rows=of)
        ),
        images,
        texts,
        hard,
        hard_images,
    )


def test_it_is_the_loss_of_open_clip() -> None:
    loss_module = pytest.importorskip("open_clip.loss")
    images, texts, _ = batch(2, n=12, d=8)
    ours, theirs = ([torch.tensor(one, requires_grad=True) for one in (images, texts)] for _ in range(2))
    Sigmoid(1 / 7.0, -3.0)(pairs(*ours)).backward()
    loss_module.SigLipLoss()(*theirs, logit_scale=torch.tensor(7.0), logit_bias=torch.tensor(-3.0)).backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-9)


def test_worked_by_hand() -> None:
    # Two pairs on the axes, t = 1, b = 0: two cosines of 1 that belong, two of 0 that do not.
    eye = torch.eye(2, dtype=torch.float64)
    expected = (2 * math.log(1 + math.exp(-1)) + 2 * math.log(2)) / 2
    assert float(Sigmoid(1.0, 0.0)(pairs(eye, eye)).detach()) == pytest.approx(expected, abs=1e-12)


def test_the_scale_has_no_bound() -> None:
    loss = Sigmoid(0.001, -10.0)
    loss(pairs(*batch(1)))
    assert loss.temperature.value == pytest.approx(0.001, rel=1e-9)
