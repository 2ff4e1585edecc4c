"""IFM and the negative cosine against their equations in loops."""

from __future__ import annotations

import math

import pytest
import torch
from equations import assert_is, batch, cosines, dot, infonce, pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.training.losses import Cosine, InfoNCE
from visir.training.objective import IFM


def reference(images, texts, owners, temperature, epsilon, false_negatives):
    """Thesis, appendix 4.E.3."""
    score = cosines(images, texts)
    n = len(score)
    plain = [[score[i][j] / temperature for j in range(n)] for i in range(n)]
    moved = [[(score[i][j] + (-epsilon if i == j else epsilon)) / temperature for j in range(n)] for i in range(n)]
    return infonce(moved, owners, false_negatives) / 2 + infonce(plain, owners, false_negatives) / 2


@pytest.mark.parametrize("false_negatives", ["masked", "kept"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), temperature=st.floats(0.05, 1.0), epsilon=st.floats(0.05, 1.0))
def test_value_and_gradient_are_the_equation(false_negatives, seed, temperature, epsilon):
    images, texts, owners = batch(seed, n=5, d=3)
    assert_is(
        lambda i, t: reference(i, t, owners, temperature, epsilon, false_negatives),
        lambda i, t: IFM(temperature, epsilon, false_negatives=false_negatives)(pairs(i, t, owners)),
        images,
        texts,
    )


def test_worked_by_hand():
    # Two pairs on the axes, τ = 1, ε = ½: plain logits 1 and 0, perturbed ½ and ½, so ½ log 2 + ½ log(1 + 1/e).
    eye = torch.eye(2, dtype=torch.float64)
    expected = math.log(2) / 2 + math.log(1 + math.exp(-1)) / 2
    assert float(IFM(1.0, 0.5)(pairs(eye, eye)).detach()) == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_it_is_never_below_infonce_and_is_it_at_no_perturbation(seed):
    given_ = pairs(*batch(seed))
    plain = float(InfoNCE(0.1)(given_).detach())
    assert float(IFM(0.1, 0.1)(given_).detach()) >= plain
    assert float(IFM(0.1, 1e-300)(given_).detach()) == pytest.approx(plain, abs=1e-12)


def test_a_learnt_temperature_gets_the_gradient_of_both_halves():
    images, texts, owners = batch(5, n=6, d=3)
    objective = IFM(0.2, 0.1, learnt=True)
    objective(pairs(images, texts, owners)).backward()
    step = 1e-30  # in the logarithm of 1 / τ
    slope = reference(images.tolist(), texts.tolist(), owners, 0.2 / (1 + step * 1j), 0.1, "masked").imag / step
    assert float(objective.temperature.log_scale.grad) == pytest.approx(slope, abs=1e-9)


def test_the_negative_cosine():
    images, texts, owners = batch(4, n=5, d=3)
    assert_is(
        lambda i, t: sum(1 - dot(a, b) for a, b in zip(i, t, strict=True)) / 5,
        lambda i, t: Cosine()(pairs(i, t, owners)),
        images,
        texts,
    )
