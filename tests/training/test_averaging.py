"""Averages within an epoch: where snapshots are taken, and what becomes of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from visir.training.averaging import RunningMean, snapshot_steps
from visir.training.moving import Moving
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
