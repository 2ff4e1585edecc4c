"""InfoNCE against the equation written out in loops, and against its gradient worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.training.objectives.infonce import InfoNCE


def reference(images, texts, owners, temperature, siblings):
    """The docstring's equation, one exponential at a time, in Python floats."""
    n = len(images)
    score = [[sum(a * b for a, b in zip(images[i], texts[j], strict=True)) / temperature for j in range(n)]
             for i in range(n)]  # fmt: skip
    total = 0.0
    for i in range(n):
        among = [j for j in range(n) if j == i or siblings == "negatives" or owners[j] != owners[i]]
        total -= math.log(math.exp(score[i][i]) / math.fsum(math.exp(score[i][j]) for j in among)) / 2
        total -= math.log(math.exp(score[i][i]) / math.fsum(math.exp(score[j][i]) for j in among)) / 2
    return total / n


def unit(rng, n, d):
    vectors = rng.normal(size=(n, d))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def batch(seed, n=9, d=5):
    rng = np.random.default_rng(seed)
    return unit(rng, n, d), unit(rng, n, d), rng.integers(0, max(2, n // 2), n)


@pytest.mark.parametrize("siblings", ["apart", "negatives"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.03, 1.0))
def test_value_is_the_equation(siblings, seed, temperature):
    images, texts, owners = batch(seed)
    objective = InfoNCE(temperature, siblings=siblings)
    value = float(objective(torch.tensor(images), torch.tensor(texts), torch.tensor(owners)))
    assert value == pytest.approx(reference(images, texts, owners, temperature, siblings), rel=0, abs=1e-9)


@pytest.mark.parametrize("siblings", ["apart", "negatives"])
def test_gradient_is_that_of_the_reference(siblings):
    images, texts, owners = batch(3, n=5, d=3)
    tensors = [torch.tensor(one, requires_grad=True) for one in (images, texts)]
    InfoNCE(0.2, siblings=siblings)(*tensors, torch.tensor(owners)).backward()
    step = 1e-5
    for tensor, which in zip(tensors, (0, 1), strict=True):
        for row in range(5):
            for column in range(3):
                values = []
                # Five-point central differences: their error is of the order step⁴, rounding about 1e-11.
                for shift in (-2, -1, 1, 2):
                    moved = [images.copy(), texts.copy()]
                    moved[which][row, column] += shift * step
                    values.append(reference(*moved, owners, 0.2, siblings))
                slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
                assert float(tensor.grad[row, column]) == pytest.approx(slope, abs=1e-9)


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
    InfoNCE(tau)(leaf, torch.tensor(texts), torch.arange(n)).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=0, atol=1e-9)


def test_worked_by_hand():
    # Two pairs on the axes, τ = 1: every softmax is e/(e+1), so L = log(1 + 1/e) = 0.31326…
    eye = torch.eye(2, dtype=torch.float64)
    assert float(InfoNCE(1.0)(eye, eye, torch.tensor([0, 1]))) == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-12)
    # Both captions are of one image: nothing is left to tell apart, unless siblings are asked for as negatives.
    assert float(InfoNCE(1.0)(eye, eye, torch.tensor([4, 4]))) == pytest.approx(0.0, abs=1e-12)
    asked = InfoNCE(1.0, siblings="negatives")(eye, eye, torch.tensor([4, 4]))
    assert float(asked) == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-12)


def test_a_learnt_temperature_moves_and_is_bounded():
    objective = InfoNCE(0.07, learnt=True)
    assert objective.temperature == pytest.approx(0.07, rel=1e-12)
    images, texts, owners = batch(1)
    objective(torch.tensor(images), torch.tensor(texts), torch.tensor(owners)).backward()
    assert objective.log_scale.grad.abs() > 0
    with torch.no_grad():
        objective.log_scale.fill_(20.0)
    objective.log_scale.grad = None
    objective(torch.tensor(images), torch.tensor(texts), torch.tensor(owners)).backward()
    assert objective.temperature == pytest.approx(0.01, rel=1e-12)
    assert objective.log_scale.grad.abs() > 0  # it can return
    assert not InfoNCE(0.07).log_scale.requires_grad
