"""Eq. 3.7 against plain loops: its value, and its gradient by differences of the loops."""

from __future__ import annotations

import math

import pytest
import torch
from sparse_toys import PIECES, batch, head

from visir.sparse.expansion import ExpansionSample, allowed
from visir.sparse.loss import SparseLoss, eta_at, score, score_active

Rows = list[list[float]]


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def softmax(line: list[float]) -> list[float]:
    top = max(line)
    powers = [math.exp(x - top) for x in line]
    return [x / sum(powers) for x in powers]


def direction(scores: Rows, cosines: Rows, tau: float) -> float:
    """ℓ, the cross entropy of the student under the teacher, in nats, a mean over queries."""
    total = 0.0
    for student, teacher in zip(scores, cosines, strict=True):
        shares, said = softmax([c / tau for c in teacher]), softmax(student)
        total -= sum(p * math.log(q) for p, q in zip(shares, said, strict=True) if p > 0)
    return total / len(scores)


def slowly(image: Rows, text: Rows, z_image: Rows, z_text: Rows, tau: float, balance: float, eta: float) -> float:
    def unit(v: list[float]) -> list[float]:
        return [x / math.sqrt(dot(v, v)) for x in v]

    cosines = [[dot(unit(i), unit(c)) for c in z_text] for i in z_image]
    scores = [[dot(i, c) for c in text] for i in image]

    def flipped(m: Rows) -> Rows:
        return [list(column) for column in zip(*m, strict=True)]

    both = direction(scores, cosines, tau) + direction(flipped(scores), flipped(cosines), tau)
    norms = sum(map(sum, image)) / len(image) + sum(map(sum, text)) / len(text)
    return (1 - balance) * both + balance * eta * norms


@pytest.mark.parametrize("way", [score, score_active])
@pytest.mark.parametrize(("tau", "balance", "eta"), [(0.3, 0.5, 0.02), (0.001, 0.2, 0.0), (0.05, 1.0, 1.0)])
def test_value_and_gradient_are_those_of_the_loops(
    way: object, tau: float, balance: float, eta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.sparse.loss.DENSE_WORK", 99.0)  # the loops over active terms, whatever the share
    model = head(double=True)
    images, texts, own = batch(4, double=True)
    drawn = ExpansionSample(torch.tensor([True, False, False, True]), torch.arange(len(PIECES)) % 7 != 0)

    def reference() -> float:
        with torch.no_grad():
            image, text = model(images), model(texts) * allowed(own, drawn, model.size)
        return slowly(image.tolist(), text.tolist(), images.tolist(), texts.tolist(), tau, balance, eta)

    loss = SparseLoss(tau, balance)(way(model, images, texts, own, drawn), images, texts, eta)[0]  # type: ignore
    assert loss.item() == pytest.approx(reference(), rel=1e-10)
    loss.backward()
    step = 1e-5
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        for place in range(0, len(flat), max(1, len(flat) // 9)):
            kept = float(flat[place])
            flat[place] = kept + step
            above = reference()
            flat[place] = kept - step
            below = reference()
            flat[place] = kept
            assert parameter.grad is not None
            assert float(parameter.grad.view(-1)[place]) == pytest.approx(
                (above - below) / (2 * step), abs=2e-6, rel=1e-5
            )


def test_eta_rises_quadratically_over_the_first_fifth() -> None:
    # T = 20 of 100 steps: (0/20)², (10/20)², (20/20)²
    assert [eta_at(0.8, step, 100, 0.2) for step in (0, 10, 20, 99)] == [0.0, pytest.approx(0.2), 0.8, 0.8]
    assert eta_at(0.8, 0, 100, 0.0) == 0.8
