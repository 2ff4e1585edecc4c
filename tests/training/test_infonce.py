"""InfoNCE against the equation written out in loops, and against its gradient worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from equations import assert_is, batch, cosines, infonce, pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.training.losses import InfoNCE


def reference(images, texts, owners, temperature, false_negatives):
    scores = [[one / temperature for one in row] for row in cosines(images, texts)]
    return infonce(scores, owners, false_negatives)


@pytest.mark.parametrize("false_negatives", ["masked", "kept"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.03, 1.0))
def test_value_is_the_equation(false_negatives, seed, temperature):
    images, texts, owners = batch(seed)
    value = float(InfoNCE(temperature, false_negatives=false_negatives)(pairs(images, texts, owners)).detach())
    assert value == pytest.approx(reference(images, texts, owners, temperature, false_negatives).real, rel=0, abs=1e-9)


@pytest.mark.parametrize("false_negatives", ["masked", "kept"])
def test_gradient_is_that_of_the_reference(false_negatives):
    images, texts, owners = batch(3, n=5, d=3)
    assert_is(
        lambda i, t: reference(i, t, owners, 0.2, false_negatives),
        lambda i, t: InfoNCE(0.2, false_negatives=false_negatives)(pairs(i, t, owners)),
        images,
        texts,
    )


def test_gradient_is_the_published_one():
    """Latent target decoding, eq. 2, for one query: there the gradient of *minus* the loss, here of the loss.

    ∂L/∂q = −[(1 − Z(q, v⁺)) v⁺ − Σ_v⁻ Z(q, v⁻) v⁻] / τ with Z the softmax over the candidates. The symmetric loss of a
    batch is ½ (1/n) Σ over queries of both modalities; z_I of pair i is the query once, and a candidate of each
    caption.
    """
    images, texts, _ = batch(7, n=6, d=4)
    tau, n = 0.1, 6
    scores = images @ texts.T / tau
    by_image = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)  # Z(z_I of row, z_C of column)
    by_text = np.exp(scores) / np.exp(scores).sum(0, keepdims=True)  # Z(z_C of column, z_I of row)
    expected = np.zeros_like(images)
    for i in range(n):
        as_query = (1 - by_image[i, i]) * texts[i] - sum(by_image[i, j] * texts[j] for j in range(n) if j != i)  # 2a
        as_positive = (1 - by_text[i, i]) * texts[i]  # 2b
        as_negative = -sum(by_text[i, j] * texts[j] for j in range(n) if j != i)  # 2c
        expected[i] = -(as_query + as_positive + as_negative) / tau / (2 * n)
    leaf = torch.tensor(images, requires_grad=True)
    InfoNCE(tau)(pairs(leaf, texts)).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=0, atol=1e-9)


def test_worked_by_hand():
    # Two pairs on the axes, τ = 1: every softmax is e/(e+1), so L = log(1 + 1/e) = 0.31326…
    eye = torch.eye(2, dtype=torch.float64)
    assert float(InfoNCE(1.0)(pairs(eye, eye)).detach()) == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-12)
    # Both captions are of one image: nothing is left to tell apart, unless false_negatives are asked for as negatives.
    assert float(InfoNCE(1.0)(pairs(eye, eye, [4, 4])).detach()) == pytest.approx(0.0, abs=1e-12)
    asked = InfoNCE(1.0, false_negatives="kept")(pairs(eye, eye, [4, 4]))
    assert float(asked.detach()) == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-12)


def test_a_learnt_temperature_moves_and_is_bounded():
    objective = InfoNCE(0.07, learnt=True)
    log_scale = objective.temperature.log_scale
    assert objective.temperature.value == pytest.approx(0.07, rel=1e-12)
    objective(pairs(*batch(1))).backward()
    # dL/d(log 1/τ) by differences of the fixed objective's value: s = 1/τ moves by ±1e-5 of itself
    around = [float(InfoNCE(0.07 * math.exp(-step))(pairs(*batch(1))).detach()) for step in (1e-5, -1e-5)]
    assert float(log_scale.grad) == pytest.approx((around[0] - around[1]) / 2e-5, abs=1e-8)
    with torch.no_grad():
        log_scale.fill_(20.0)
    log_scale.grad = None
    objective(pairs(*batch(1))).backward()
    assert objective.temperature.value == pytest.approx(0.01, rel=1e-12)
    assert log_scale.grad.abs() > 0  # it can return
    assert not InfoNCE(0.07).temperature.log_scale.requires_grad


def test_half_precision_vectors_are_contrasted_in_float32():
    images, texts, owners = batch(2, n=32, d=64)
    coarse = [torch.tensor(one, dtype=torch.bfloat16) for one in (images, texts)]
    exact = InfoNCE(0.05)(pairs(*(one.double() for one in coarse), owners))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = InfoNCE(0.05)(pairs(*coarse, owners))
    assert value.dtype == torch.float32
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=1e-5)
