"""Averages within an epoch: where snapshots are taken, and what becomes of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted import objective, planted, recipe, towers
from torch import nn

from visir.training.learner import DualEncoder
from visir.training.loop import Training, close_epoch, updates
from visir.training.optimiser import Moved, Moving, RunningMean, parameters_of, snapshot_steps
from visir.training.processes import Processes
from visir.training.recipe import Averaging


def test_five_over_the_last_tenth_by_hand() -> None:
    # 10 steps make the last 10 % of 100: 90 … 99; five even places, the last one among them.
    assert snapshot_steps(Averaging(snapshots=5, share=0.1), 100) == {91, 93, 95, 97, 99}
    assert snapshot_steps(Averaging(snapshots=2, share=1.0), 10) == {4, 9}
    assert snapshot_steps(Averaging(), 100) == frozenset()


def test_a_short_epoch_takes_its_last_steps() -> None:
    assert snapshot_steps(Averaging(snapshots=5, share=0.1), 20) == {15, 16, 17, 18, 19}
    assert snapshot_steps(Averaging(snapshots=5, share=0.1), 3) == {0, 1, 2}


@given(st.integers(1, 20), st.floats(0.01, 1.0), st.integers(1, 400))
def test_places_are_even_and_end_with_the_epoch(snapshots: int, share: float, steps: int) -> None:
    places = sorted(snapshot_steps(Averaging(snapshots=snapshots, share=share), steps))
    assert len(places) == min(snapshots, steps) and places[-1] == steps - 1 and places[0] >= 0
    gaps = {after - before for before, after in pairwise(places)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_the_mean_of_weights_and_statistics_and_the_way_back() -> None:
    module = nn.BatchNorm1d(2)
    average = RunningMean()
    for step, value in enumerate([1.0, 2.0, 6.0]):
        with torch.no_grad():
            module.weight.fill_(value)
        module.running_mean.fill_(10 * value)
        module.num_batches_tracked.fill_(step)
        average.add(Moving(module))
    with average.inside(Moving(module)):
        assert module.weight.tolist() == pytest.approx([3.0, 3.0])  # (1 + 2 + 6) / 3
        assert module.running_mean.tolist() == pytest.approx([30.0, 30.0])
        assert int(module.num_batches_tracked) == 2
    assert module.weight.tolist() == [6.0, 6.0] and module.running_mean.tolist() == [60.0, 60.0]


def test_the_mean_takes_the_place_of_the_weights_and_statistics_stay() -> None:
    module = nn.BatchNorm1d(2)
    average, moved = RunningMean(), Moved(module.parameters())
    average.swap_in(moved)  # without a snapshot nothing changes
    for value in (1.0, 2.0, 6.0):
        with torch.no_grad():
            module.weight.fill_(value)
        module.running_mean.fill_(10 * value)
        average.add(moved)
    average.swap_in(moved)
    # (1 + 2 + 6) / 3, and for good; the running mean is that of the last step, as of swap_swa_sgd.
    assert module.weight.tolist() == pytest.approx([3.0, 3.0]) and module.running_mean.tolist() == [60.0, 60.0]
    assert average.count == 0 and not average.mean
    with average.inside(moved):
        assert module.weight.tolist() == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("continue_from", ["weights", "average"])
def test_an_epoch_goes_on_from_the_weights_or_from_their_mean(continue_from: str) -> None:
    # 4 steps an epoch, snapshots after the last 3 of them. What the optimiser holds is followed step by step.
    settings = recipe(
        optimiser={"epochs": 2, "batch": 20, "rate": 0.01},
        auxiliary={"ltd": {"hidden": 4, "join": "dual"}},
        averaging={"snapshots": 3, "share": 0.75, "continue_from": continue_from},
    )
    data = planted(40, seed=1, views=2, targets=True)
    learner = DualEncoder(towers(hidden=(8,)), objective(settings))
    training = Training(settings, learner, data, planted(10, seed=2), Processes.join("cpu"))
    training.begin()

    def weights() -> list[torch.Tensor]:
        return [one.detach().clone() for one in parameters_of(training.optimiser)]

    after = [weights() for _ in updates(training)]
    assert len(after) == training.steps == 4
    decoder = {id(one) for one in learner.objective.parameters()}
    assert any(id(one) in decoder for one in parameters_of(training.optimiser)), "the decoder moves too"
    close_epoch(training)
    mean = [torch.stack(values).mean(0) for values in zip(*after[1:], strict=True)]
    for now, last, average in zip(weights(), after[-1], mean, strict=True):
        torch.testing.assert_close(now, average if continue_from == "average" else last)
    assert any(not torch.allclose(last, average) for last, average in zip(after[-1], mean, strict=True))
    # The best weights are the mean in both, of the towers.
    towers_mean = dict(zip(map(id, parameters_of(training.optimiser)), mean, strict=True))
    for name, parameter in training.model.named_parameters():
        torch.testing.assert_close(training.best[name], towers_mean[id(parameter)])


def test_without_a_snapshot_nothing_is_swapped_and_an_error_swaps_back() -> None:
    module = nn.Linear(1, 1)
    average = RunningMean()
    before = module.weight.clone()
    with average.inside(Moving(module)):
        assert torch.equal(module.weight, before)
    average.add(Moving(module))
    with torch.no_grad():
        module.weight.add_(1)
    with pytest.raises(RuntimeError), average.inside(Moving(module)):
        assert torch.equal(module.weight, before)
        raise RuntimeError
    assert torch.equal(module.weight, before + 1)
    average.clear()
    assert average.count == 0
