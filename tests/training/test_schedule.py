"""The learning rate over time, by hand."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from visir.training.optimiser import Timetable
from visir.training.recipe import Schedule


def factors(epochs: int, steps: int, **schedule: object) -> list[float]:
    table = Timetable(Schedule.model_validate(schedule), epochs, steps)
    return [table.factor(epoch, step) for epoch in range(epochs) for step in range(steps)]


def test_cosine_after_a_warm_up_by_hand() -> None:
    # 10 steps, 20 % warm-up: two rising steps 1/2, 1; then the cosine over 8 steps: 1 at its first, 1/2 half-way.
    found = factors(2, 5, warmup=0.2)
    assert found[:3] == [0.5, 1.0, 1.0]
    assert found[6] == pytest.approx(0.5)
    assert found[9] == pytest.approx(0.5 * (1 + math.cos(math.pi * 7 / 8)))
    assert factors(2, 5, warmup=0.0)[0] == 1.0


def test_a_warm_up_of_one_or_more_is_a_number_of_steps() -> None:
    assert factors(2, 5, warmup=4, shape="constant") == [0.25, 0.5, 0.75] + [1.0] * 7
    assert factors(1, 4, warmup=100, shape="constant") == [0.25, 0.5, 0.75, 1.0]  # no longer than the training


def test_linear_by_hand() -> None:
    # One rising step, then 4 steps from 1 towards 0, which a fifth would reach.
    assert factors(1, 5, warmup=1, shape="linear") == [1.0, 1.0, 0.75, 0.5, 0.25]


def test_steps_by_hand() -> None:
    # VSE++: times 0.1 after every 2 epochs.
    found = factors(5, 2, warmup=0, shape="step", step_epochs=2, factor=0.1)
    assert found == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01])


def test_two_phases_begin_the_shape_anew_at_the_tuned_rate() -> None:
    # 3 frozen epochs of 2 steps: linear from 1; then 2 tuned ones: from 0.1, no warm-up.
    found = factors(5, 2, warmup=0, shape="linear", frozen_epochs=3, tuned_rate=0.1)
    assert found == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0.1, 0.075, 0.05, 0.025])
    table = Timetable(Schedule(frozen_epochs=3), 5, 2)
    assert [table.is_frozen(epoch) for epoch in range(5)] == [True, True, True, False, False]
    stepped = factors(4, 1, warmup=0, shape="step", step_epochs=1, factor=0.5, frozen_epochs=2, tuned_rate=0.1)
    assert stepped == pytest.approx([1, 0.5, 0.1, 0.05])


def test_per_epoch_the_rate_stands_still_within_an_epoch_by_hand() -> None:
    # Cosine over 4 epochs: ½ (1 + cos(π e / 4)) = 1, 0.853553, 0.5, 0.146447, whatever the step.
    values = [1.0, 0.8535533905932737, 0.5, 0.14644660940672627]
    assert factors(4, 3, warmup=0, per="epoch") == pytest.approx([one for one in values for _ in range(3)])
    assert factors(2, 2, warmup=0, shape="linear", per="epoch") == [1.0, 1.0, 0.5, 0.5]
    # Two phases: each has the cosine over its own epochs, 1 and ½; the second from 0.1.
    found = factors(4, 2, warmup=0, per="epoch", frozen_epochs=2, tuned_rate=0.1)
    assert found == pytest.approx([1, 1, 0.5, 0.5, 0.1, 0.1, 0.05, 0.05])
    # A warm-up of one epoch and a half rises with every step: 1/3, 2/3, 1; then epoch 2 of 3 has the middle of what is
    # left, from step 3 to step 6: its first step, 4, is a third of the way.
    assert factors(3, 2, warmup=3, shape="linear", per="epoch") == pytest.approx([1 / 3, 2 / 3, 1, 1, 2 / 3, 2 / 3])


def test_per_epoch_is_torch_s_cosine_that_is_given_the_epoch() -> None:
    # The released code: scheduler.step(epoch) after each iteration, which counts from the second iteration on.
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=5)
    table = Timetable(Schedule(warmup=0, per="epoch"), 5, 4)
    for epoch in range(5):
        for step in range(4):
            if step:
                assert optimiser.param_groups[0]["lr"] == pytest.approx(table.factor(epoch, step))
            optimiser.step()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch advises against the argument
                scheduler.step(epoch)


def test_all_epochs_frozen_is_one_phase() -> None:
    assert factors(2, 2, warmup=0, shape="linear", frozen_epochs=9) == [1.0, 0.75, 0.5, 0.25]


@given(
    st.sampled_from(["cosine", "linear", "step", "constant"]),
    st.integers(1, 6),
    st.integers(1, 9),
    st.floats(0, 20),
    st.integers(0, 7),
    st.sampled_from(["step", "epoch"]),
)
def test_every_factor_is_a_share_and_no_step_stands_still(
    shape: str, epochs: int, steps: int, warmup: float, frozen: int, per: str
) -> None:
    found = factors(epochs, steps, shape=shape, warmup=warmup, frozen_epochs=frozen, per=per)
    assert len(found) == epochs * steps
    assert all(0 < one <= 1 for one in found)
