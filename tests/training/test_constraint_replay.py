"""The multiplier of a constraint: against torch's SGD, and replayed over what the authors of LTD published."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
import torch

from visir.training.objective import Constraint

BOUNDS = {
    "swa_coco_ltd_constraint_b005_tl": 0.05,
    "swa_coco_ltd_constraint_b010_tl": 0.10,
    "swa_coco_ltd_constraint_b015_tl": 0.15,
    "swa_coco_ltd_constraint_tl": 0.20,
    "swa_coco_ltd_constraint_b025_tl": 0.25,
}


@pytest.mark.parametrize("clamp", ["reading", "step"])
@pytest.mark.parametrize("bound", [0.05, 6.0])
def test_a_thousand_steps_are_those_of_torch(clamp, bound):
    # Gradients in waves (losses below zero among them, for the sake of the referee) that drive λ to both its ends and
    # back: half a wave of 188 steps moves it by about 0.005 · 188 · 250 · 2/π = 150, a whole one by −38.
    gradients = 250 * np.sin(np.arange(1000) / 60) - 20 + np.random.default_rng(4).normal(size=1000)
    losses = bound * (1 + gradients)
    constraint = Constraint(bound, clamp=clamp)
    weight = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    referee = torch.optim.SGD([weight], lr=5e-3, momentum=0.9, dampening=0.9, maximize=True)
    seen = []
    for loss in losses:
        referee.zero_grad()
        # The Lagrangian; its gradient by λ is what the optimiser takes.
        (weight * (loss / bound - 1)).backward()
        referee.step()
        if clamp == "step":
            with torch.no_grad():
                weight.clamp_(0.0, 100.0)
        constraint.ascend(float(loss))
        seen.append(min(max(float(weight.detach()), 0.0), 100.0))
        assert constraint.value == seen[-1]
    assert {0.0, 100.0} < set(seen)
    assert len(set(seen[300:])) > 100  # and it left them


def test_both_ends_hold():
    constraint = Constraint(0.1, clamp="step")
    for _ in range(3000):
        constraint.ascend(1.0)  # gradient 9: 0.045 a step
    assert constraint.value == 100.0
    for _ in range(25_000):
        constraint.ascend(0.0)  # gradient −1: 0.005 a step
    assert constraint.value == 0.0
    # Projected, λ answers as soon as the velocity has turned: v_k = 9 − 10 · 0.9^k, above 0 from k = 2 on.
    for _ in range(5):
        constraint.ascend(1.0)
    assert constraint.value > 0.0
    free = Constraint(0.1)
    for _ in range(400):
        free.ascend(0.0)
    assert free.value == 0.0
    for _ in range(15):
        free.ascend(1.0)
    assert free.value == 0.0  # it stands at about −0.5 and has to climb out first
    for _ in range(20):
        free.ascend(1.0)
    assert free.value > 0.0


def test_the_term_and_its_gradient():
    # λ = 1 at first: 1 · (0.5 / 0.2 − 1) = 1.5, whose slope by the reconstruction loss is λ / η = 5.
    loss = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    term = Constraint(0.2)(loss)
    term.backward()
    assert float(term.detach()) == pytest.approx(1.5, abs=1e-12)
    assert float(loss.grad) == pytest.approx(5.0, abs=1e-12)


@pytest.fixture(scope="session")
def published(data_dir):
    """The published multipliers and reconstruction losses by column (LTD, Figure 2; every 100th step)."""
    folder = data_dir / "ltd-trajectories"
    tables = []
    for name in ("multiplier", "reconstruction_loss"):
        with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        tables.append({key: np.array([float(row[key]) for row in rows]) for key in ("Step", *BOUNDS)})
    np.testing.assert_array_equal(tables[0]["Step"], tables[1]["Step"])
    return tables


def replay(steps, losses, bound, clamp):
    """λ after each of the logged steps, the losses between them interpolated."""
    constraint, seen = Constraint(bound, clamp=clamp), []
    logged = set(steps.astype(int).tolist())
    for step, loss in enumerate(np.interp(np.arange(int(steps[-1]) + 1), steps, losses).tolist()):
        constraint.ascend(loss)
        if step in logged:
            seen.append(constraint.value)
    return np.array(seen)


def assert_follows(published, column, until):
    """Measured: correlations from 0.9991 up, largest deviations 1.3 to 5.1 % of the peak (99 of 100 losses unknown).

    A rate that is wrong by a tenth deviates by 8 to 13 %; ascent in the wrong direction and momentum without dampening
    by 63 % and more. A clamp at each step first shows after 20,000 steps: 103 % for η = 0.2.
    """
    multipliers, losses = published
    part = losses["Step"] <= until
    theirs = multipliers[column][part]
    ours = replay(losses["Step"][part], losses[column][part], BOUNDS[column], "reading")
    assert np.corrcoef(ours, theirs)[0, 1] > 0.999
    assert np.abs(ours - theirs).max() < 0.06 * theirs.max()


@pytest.mark.parametrize("column", BOUNDS)
def test_the_first_published_step(published, column):
    multipliers, losses = published
    constraint = Constraint(BOUNDS[column])
    constraint.ascend(losses[column][0])
    assert constraint.value == pytest.approx(multipliers[column][0], abs=2e-7)  # published in float32
    if BOUNDS[column] == 0.05:
        assert constraint.value == pytest.approx(1.0959884, abs=5e-8)


@pytest.mark.parametrize("column", BOUNDS)
def test_the_published_rise(published, column):
    """The first 20,000 steps: η = 0.05 reaches the ceiling, 0.2 and 0.25 rise and fall to zero."""
    assert_follows(published, column, 20_000)


@pytest.mark.nightly
@pytest.mark.parametrize("column", BOUNDS)
def test_the_whole_published_trajectory(published, column):
    assert_follows(published, column, 265_534)


@pytest.mark.nightly
def test_the_published_multiplier_was_clamped_at_reading(published):
    """Projected, λ is 0 in a fifth of training with η = 0.2; published it is 0 in 95 %."""
    multipliers, losses = published
    theirs = multipliers["swa_coco_ltd_constraint_tl"]
    projected = replay(losses["Step"], losses["swa_coco_ltd_constraint_tl"], 0.2, "step")
    assert np.corrcoef(projected, theirs)[0, 1] < 0.5
    assert (theirs == 0.0).mean() > 0.9
    assert (projected == 0.0).mean() < 0.3
