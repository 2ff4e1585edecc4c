"""Fitting: what is planted is learnt, the same seed gives the same bits, and an interruption changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from planted import planted, recipe

from visir.errors import ConfigurationError
from visir.training.fit import Epoch, Fitted, fit_heads
from visir.training.loop import TrainingError
from visir.training.state import STATE_FILE

TRAIN, VALIDATION = planted(300, seed=1), planted(60, seed=2)
MLP = {"dimension": 16, "image": {"hidden": [32], "dropout": 0.2}, "text": {"hidden": [32], "dropout": 0.2}}


def same_bits(one: Fitted, other: Fitted) -> bool:
    pairs = [
        (value, other.heads[side].state_dict()[name])
        for side, head in one.heads.items()
        for name, value in head.state_dict().items()
    ]
    return all(torch.equal(a, b) for a, b in pairs) and losses(one) == losses(other)


def losses(fitted: Fitted) -> list[tuple[float, dict[str, float]]]:
    return [(epoch.loss, epoch.validation) for epoch in fitted.curve]


def test_a_planted_linear_map_is_learnt() -> None:
    fitted = fit_heads(recipe(), TRAIN, VALIDATION)
    found = fitted.curve[fitted.chosen - 1].validation
    assert found["i2t hit@1"] == found["t2i hit@1"] == 100.0
    assert found["rsum"] == 600.0
    # The first epoch to get there is kept, not a later equal one.
    assert fitted.chosen == 1 + [epoch.validation["rsum"] for epoch in fitted.curve].index(600.0)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    settings = recipe(model=MLP)
    one = fit_heads(settings, TRAIN, VALIDATION)
    torch.rand(3)  # whatever else draws from torch's generator meanwhile
    assert same_bits(one, fit_heads(settings, TRAIN, VALIDATION))
    assert not same_bits(one, fit_heads(recipe(model=MLP, seed=1), TRAIN, VALIDATION))


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    fit_heads(recipe(optimiser={"epochs": 1}), TRAIN, VALIDATION)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("objective", [{}, {"learn_temperature": True}])
@pytest.mark.parametrize("after", [1, 4])
def test_an_interrupted_training_resumes_exactly(tmp_path: Path, after: int, objective: dict[str, bool]) -> None:
    settings = recipe(model=MLP, objective=objective, optimiser={"epochs": 6, "batch": 64, "rate": 0.01})
    whole = fit_heads(settings, TRAIN, VALIDATION)

    def interrupt(epoch: Epoch) -> None:
        if epoch.epoch == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_heads(settings, TRAIN, VALIDATION, folder=tmp_path, report=interrupt)
    told: list[int] = []
    resumed = fit_heads(
        settings, TRAIN, VALIDATION, folder=tmp_path, resume=True, report=lambda e: told.append(e.epoch)
    )
    assert told == list(range(after + 1, 7))
    assert same_bits(whole, resumed)
    assert (whole.chosen, whole.temperature) == (resumed.chosen, resumed.temperature)


KILLED = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[2])
from planted import planted, recipe
from visir.training.fit import fit_heads
die = lambda epoch: os.kill(os.getpid(), 9) if epoch.epoch == 3 else None
fit_heads(recipe(), planted(300, seed=1), planted(60, seed=2), folder=pathlib.Path(sys.argv[1]), report=die)
"""


def test_a_training_that_was_killed_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    arguments = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    assert subprocess.run(arguments, env=threads, check=False).returncode == -9
    resumed = fit_heads(recipe(), TRAIN, VALIDATION, folder=tmp_path, resume=True)
    assert same_bits(fit_heads(recipe(), TRAIN, VALIDATION), resumed)


def test_a_state_of_another_training_is_refused_naming_every_difference(tmp_path: Path) -> None:
    fit_heads(recipe(optimiser={"epochs": 1}), TRAIN, VALIDATION, folder=tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        fit_heads(recipe(seed=3, optimiser={"epochs": 2}), TRAIN, planted(9, seed=4), folder=tmp_path, resume=True)
    text = str(caught.value)
    assert "recipe.seed: interrupted with 0, now 3" in text
    assert "recipe.optimiser.epochs: interrupted with 1, now 2" in text
    assert "features.validation.seed: interrupted with 2, now 4" in text
    assert "(3 faults)" in text


def test_nan_stops_naming_the_captions_and_keeps_the_state(tmp_path: Path) -> None:
    broken = planted(300, seed=1)
    settings = recipe(model={"dimension": 16, "text": {"scaling": "none"}}, optimiser={"epochs": 2, "batch": 200})
    fit_heads(settings, TRAIN, VALIDATION, folder=tmp_path)
    before = (tmp_path / STATE_FILE).read_bytes()
    broken.texts[7] = np.nan
    complaint = r"the loss is nan in epoch 1, step [123] \(learning rate .*captions of the batch: 'c"
    with pytest.raises(TrainingError, match=complaint) as caught:
        fit_heads(settings, broken, VALIDATION, folder=tmp_path)
    assert "c7" in caught.value.ids and len(caught.value.ids) == 200
    assert "… (200 in all)" in str(caught.value) and "lower optimiser.rate" in str(caught.value)
    assert (tmp_path / STATE_FILE).read_bytes() == before


def test_patience_stops_early_and_last_keeps_the_last() -> None:
    settings = {"epochs": 12, "batch": 64, "rate": 0.01}
    early = fit_heads(recipe(optimiser=settings, selection={"patience": 2}), TRAIN, VALIDATION)
    assert len(early.curve) == early.chosen + 2 < 12
    last = fit_heads(recipe(optimiser=settings, selection={"keep": "last"}), TRAIN, VALIDATION)
    assert last.chosen == len(last.curve) == 12
    assert not same_bits(early, last)


def test_patience_runs_out_alike_after_a_resumption(tmp_path: Path) -> None:
    settings = recipe(selection={"patience": 1})
    whole = fit_heads(settings, TRAIN, VALIDATION, folder=tmp_path)
    assert same_bits(whole, fit_heads(settings, TRAIN, VALIDATION, folder=tmp_path, resume=True))
