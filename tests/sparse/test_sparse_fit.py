"""Training a head: it learns, chooses, stops and goes on bit for bit, and validates rightly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sparse_toys import head, planted, recipe, train

from refusals import refused
from visir.errors import ConfigurationError
from visir.sparse.run import SparseLearner, validate
from visir.training.loop import FitResult, Training, TrainingError
from visir.training.trained import STATE_FILE, STEPS_FILE, read_steps

TRAIN, VALIDATION = planted(100, seed=1), planted(40, seed=2)


def run(folder: Path | None = None, settings: Any = None, **options: Any) -> FitResult[SparseLearner]:
    return train(settings or recipe(), head(inputs=10), TRAIN, VALIDATION, folder=folder, **options)


def test_it_learns_and_keeps_the_best_epoch() -> None:
    fitted = run(settings=recipe(optimiser={"epochs": 12}))
    found = [epoch.validation["mrr@10"] for epoch in fitted.curve]
    assert fitted.chosen == 1 + found.index(max(found)) and len(set(found)) > 1
    losses = [epoch.losses["loss"] for epoch in fitted.curve]
    assert losses[-1] < 0.8 * losses[0]
    assert validate(fitted.learner.head, VALIDATION, "caption+word")["mrr@10"] == max(found)
    assert [epoch.facts["p_c"] for epoch in fitted.curve][:: len(found) - 1] == [0.0, 1.0]


@pytest.mark.parametrize("variant", ["none", "free"])
def test_validation_counts_what_plain_loops_count(variant: Any) -> None:
    model = head(inputs=10)
    found = validate(model, VALIDATION, variant)
    image, text = model(VALIDATION.images).detach(), model(VALIDATION.texts).detach()
    if variant == "none":
        for row in range(len(text)):
            mine = VALIDATION.terms.of(row).tolist()
            text[row] = torch.tensor([w if k in mine else 0.0 for k, w in enumerate(text[row].tolist())])
    reciprocal, common = 0.0, 0
    for row, owner in enumerate(VALIDATION.image_rows.tolist()):
        scores = (image @ text[row]).tolist()
        rank = 1 + sum(s >= scores[owner] for i, s in enumerate(scores) if i != owner)
        reciprocal += 1 / rank if rank <= 10 else 0
        common += int(((image > 0) & (text[row] > 0)).sum())
    assert found["mrr@10"] == pytest.approx(100 * reciprocal / len(text), abs=0.5)
    assert found["flops"] == pytest.approx(common / (len(image) * len(text)))
    assert found["text terms"] == pytest.approx(float((text > 0).sum()) / len(text))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("sampled_per", ["caption", "batch"])
@pytest.mark.parametrize("stop_after", [2, 9])
def test_a_training_that_was_stopped_goes_on_bit_for_bit(
    sampled_per: str, stop_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recipe(expansion={"sampled_per": sampled_per})
    whole = run(tmp_path / "whole", settings)
    saved, save = [], Training.save

    def stop(training: Training[Any], path: Path) -> None:
        save(training, path)
        saved.append(training.steps_done)
        if len(saved) == stop_after:  # 7 steps an epoch: within the first, and within the second
            raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Training, "save", stop)
        run(tmp_path / "part", settings, save_seconds=0)
    resumed = run(tmp_path / "part", settings, resume=True)
    for name, tensor in whole.learner.head.state_dict().items():
        assert torch.equal(tensor, resumed.learner.head.state_dict()[name]), name
    assert [e.losses for e in whole.curve] == [e.losses for e in resumed.curve]
    logs = [list(read_steps(tmp_path / one / STEPS_FILE)) for one in ("whole", "part")]
    assert logs[0] == logs[1] and len(logs[0]) == 42


def test_a_state_of_another_training_is_refused(tmp_path: Path) -> None:
    run(tmp_path, recipe(optimiser={"epochs": 1}))
    assert (tmp_path / STATE_FILE).is_file()
    with refused(ConfigurationError, "recipe.loss.eta", "interrupted with 0.001", "now 0.01"):
        run(tmp_path, recipe(optimiser={"epochs": 1}, loss={"eta": 0.01}), resume=True)


def test_a_loss_that_is_no_number_stops_it() -> None:
    broken = head(inputs=10)
    with torch.no_grad():
        broken.words[7, 0] = float("nan")
    with pytest.raises(TrainingError, match="the loss is nan in epoch 1, step 1"):
        train(recipe(), broken, TRAIN, VALIDATION)


def test_what_a_cpu_does_not_do_is_refused() -> None:
    with refused(ConfigurationError, "compile = True and precision =", "bfloat16", code="not-cpu-where-active"):
        run(settings=recipe(compile=True, precision="bfloat16"))
