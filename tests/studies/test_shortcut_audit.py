"""The audit: its one number by hand, its trials, its page; and one real audit, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from manifests import write_json
from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError, VisirError
from visir.files import read_json
from visir.reports.plots import to_svg
from visir.reports.shortcut_audit import audit_plot, audit_report, audit_table
from visir.studies.shortcut_audit import Audit, audit, setup_trial, trials_of
from visir.studies.trial import LOG_FILE, TRIAL_FILE, DualEncoderTrial, run_trials
from visir.training.recipe import Recipe

SMALL: dict[str, Any] = {
    "name": "small",
    "dimension": 8,
    "data": {"collection": "scenes:60?size=64"},
    "image": {"tower": "small-cnn", "size": 64, "width": 8},
    "text": {"tower": "gru", "words": 8, "hidden": 8},
    "optimiser": {"epochs": 1, "batch": 32},
    "shortcuts": {"digits": "sklearn", "placement": "packed"},
}


def found(without: Any, bits: tuple[int, ...] = (0, 2, 4)) -> Audit:
    values = np.array(without, np.float64)
    return Audit("it", bits, range(values.shape[1]), np.full(values.shape[1], 310.0), values, 300 + values / 2)


def test_the_one_number_by_hand() -> None:
    # Seed 0 loses 10 % at 2 bits and 20 % at 4: 5 % a bit. Seed 1 loses nothing. Seed 2 loses 0 % and 20 %:
    # (2 · 0 + 4 · 20) / (2² + 4²) = 4 % a bit.
    audited = found([[300.0, 250.0, 200.0], [270.0, 250.0, 200.0], [240.0, 250.0, 160.0]])
    np.testing.assert_allclose(audited.loss_per_bit, [5.0, 0.0, 4.0])
    table = audit_table(audited)
    assert table.texts()[0] == ["no shortcuts", "310.0 ± 0.0", "–", "–"]
    # Lost at 4 bits, mean over seeds: (20 + 0 + 20) / 3.
    assert table.texts()[3][3] == "13.3" and table.texts()[1][3] == "–"
    assert "Lost per bit: 3.00 ± 2.65 % of retrieval." in table.notes


def test_the_page_says_it_too_and_fetches_nothing(tmp_path: Path) -> None:
    audited = found([[300.0], [270.0], [240.0]])
    page = audit_report(audited).write(tmp_path / "a.html", command="visir shortcuts audit <x>").read_text()
    assert "<b>5.00 %</b> of retrieval, up to 4 bits" in page and "&lt;x&gt;" in page and "<script" not in page
    assert "bits of shortcut in training" in to_svg(audit_plot(audited))
    assert '<h2 id="plot-h">Retrieval over bits</h2>' in page and "<svg viewBox" in page and "&lt;svg" not in page


def test_trials_take_over_what_else_the_recipe_says_of_shortcuts() -> None:
    trials = {one.name: one for one in trials_of(Recipe.model_validate(SMALL), (0, 3), (0, 7))}
    assert sorted(trials) == sorted(f"{what}/seed{seed}" for what in ("baseline", "bits0", "bits3") for seed in (0, 7))
    assert trials["baseline/seed7"].recipe.shortcuts is None and trials["baseline/seed7"].recipe.seed == 7
    stamped = trials["bits3/seed0"]
    assert stamped.recipe.shortcuts is not None and stamped.recipe.shortcuts.placement == "packed"
    assert stamped.evaluations == {"without": None, "with": "bits:3?digits=sklearn&placement=packed"}
    assert DualEncoderTrial.from_dict(stamped.to_dict()) == stamped
    with pytest.raises(ConfigurationError) as told:
        trials_of(Recipe.model_validate(SMALL), (2, 2, 40), (1, 1))
    assert "4 faults" in str(told.value) and "0, which losses are measured from" in str(told.value)


def test_every_setup_of_the_thesis_is_one_trial() -> None:
    recipe = Recipe.model_validate({**SMALL, "shortcuts": {"kind": "bits", "bits": 3, "digits": "sklearn"}})
    with_digits = {one: setup_trial(recipe, one, 0).evaluations.get("with") for one in ("unique", "images", "captions")}
    assert with_digits == {
        "unique": "unique?digits=sklearn",
        "images": "unique?on=images&digits=sklearn",
        "captions": "unique?on=captions&digits=sklearn",
    }
    assert setup_trial(recipe, "baseline", 5).recipe.shortcuts is None
    with refused(ConfigurationError, "image", code="no-setup", meant="images"):
        setup_trial(recipe, "image", 0)


def test_another_evaluation_is_no_other_trial(tmp_path: Path) -> None:
    recipe = Recipe.model_validate(SMALL)
    (tmp_path / "one").mkdir()
    write_json(tmp_path / "one" / TRIAL_FILE, DualEncoderTrial("one", recipe, {"with": "unique"}).to_dict())
    DualEncoderTrial("one", recipe, {"without": None, "with": "unique"}).check_same(tmp_path)
    with refused(VisirError, "evaluations.with", code="holds-another-trial-differ"):
        DualEncoderTrial("one", recipe, {"without": None, "with": "bits:3"}).check_same(tmp_path)


def test_a_folder_of_another_trial_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    trial = DualEncoderTrial("one", Recipe.model_validate(SMALL))
    other = trial.to_dict()
    other["recipe"]["optimiser"]["rate"] = 0.5
    (tmp_path / "one").mkdir()
    write_json(tmp_path / "one" / TRIAL_FILE, other)
    with refused(VisirError, "recipe.optimiser.rate", code="holds-another-trial-differ"):
        run_trials([trial], tmp_path)


def test_what_fails_is_named_with_its_log(tmp_path: Path) -> None:
    broken = Recipe.model_validate({**SMALL, "data": {"collection": "nowhere.json", "obtain": "download it first"}})
    with refused(VisirError, "one", "log.txt", code="trials-failed"):
        run_trials([DualEncoderTrial("one", broken)], tmp_path)
    assert "download it first" in (tmp_path / "one" / LOG_FILE).read_text()
    # Where data can be had is no part of a trial: the same training with other advice goes on in the same folder.
    advised = {**SMALL, "data": {"collection": "nowhere.json", "obtain": "ask the authors"}}
    DualEncoderTrial("one", Recipe.model_validate(advised)).check_same(tmp_path)


@pytest.mark.nightly
def test_an_audit_end_to_end_and_again_from_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    first = audit(Recipe.model_validate(SMALL), out=out, bits=(0, 6))
    assert first.without.shape == first.with_shortcuts.shape == (2, 1)
    trial = read_json(out / "bits6" / "seed0" / TRIAL_FILE)
    assert trial["evaluations"]["with"] == "bits:6?digits=sklearn&placement=packed"
    again = audit(SMALL, out=out, bits=(0, 6))  # a recipe is a dictionary too
    assert repr(again).startswith("Audit(small)\n  rsum without shortcuts: 0 bits ")
    assert again.to_markdown().startswith("Shortcut audit of small") or "| trained with" in again.to_markdown()
    assert np.array_equal(first.without, again.without)


@pytest.mark.nightly
def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    small = ["--set", "data.collection=scenes:60?size=64", "--set", "optimiser.epochs=1", "--set", "image.width=8"]
    asked = ["shortcuts", "audit", "scenes-vse", *small, "--set", "shortcuts.digits=sklearn"]
    done = CliRunner().invoke(app, [*asked, "--bits", "0", "--bits", "4", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Lost per bit" in done.output and (tmp_path / "out" / "audit.html").is_file()
