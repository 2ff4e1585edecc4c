from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from intent_log import folder_of, random_log
from scipy.stats import t

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions.examples import Sample, draw
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.prediction.models import MISSING, MODELS, Scaling, all_bought, expanded, fit, for_trees
from visir.sessions.prediction.study import (
    FeatureSetComparison,
    StudyPlan,
    fingerprint,
    load_study,
    predict,
    run_study,
    summarise,
)
from visir.sessions.reports.intent import f1_table, measures_table
from visir.stats import adjust, difference

for package in ("duckdb", "sklearn"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

PLAN = StudyPlan((Sample("identified", min_pages=4), Sample("anonymous", min_pages=4)), models=("lr", "rf"), folds=2)


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(random_log(70), tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def study(log_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    run_study(log_folder, PLAN, out, jobs=1)
    return out


def test_every_cell_is_kept_and_a_killed_study_goes_on(study: Path, log_folder: Path) -> None:
    # 2 settings × ((2 grouped + 1 temporal folds) × 3 steps + 2 ungrouped folds × 1 step, 0 of 0, 5, 10)
    _, cells = load_study(study)
    assert len(cells) == 2 * (2 * 3 + 3 + 2)
    gone, kept = cells[0], study / "cells" / cells[1].file
    (study / "cells" / gone.file).unlink()
    stamp = kept.stat().st_mtime_ns
    again = run_study(log_folder, PLAN, study, jobs=2)
    assert kept.stat().st_mtime_ns == stamp
    redone = next(one for one in again if one.file == gone.file)
    assert (redone.scores, redone.importance) == (gone.scores, gone.importance)  # in another process, the same numbers


def test_another_study_is_not_mixed_in(study: Path, log_folder: Path) -> None:
    with refused(VisirError, code="holds-another-study"):
        run_study(log_folder, StudyPlan(PLAN.samples, models=("lr",), folds=2), study)
    with refused(ConfigurationError, meant="rf"):
        StudyPlan(PLAN.samples, models=("rff",))
    with refused(VisirError, code="not-folder-prediction-study"):
        load_study(study / "cells")


def test_cells_of_other_features_are_another_study(log_folder: Path) -> None:
    """Whatever features read is in the fingerprint: a device that is known a page later makes other cells."""
    examples = draw(log_folder, Sample("anonymous", seed=1))
    assert fingerprint(examples) == fingerprint(draw(log_folder, Sample("anonymous", seed=1)))
    earlier = replace(examples.earlier, ended=examples.earlier.ended + 1)
    for change in (
        {"device_step": examples.device_step + 1},
        {"purchase": ~examples.purchase},
        {"visitor": examples.visitor[::-1].copy()},
        {"pages": replace(examples.pages, codes=examples.pages.codes + 1)},
        {"earlier": replace(earlier, offsets=examples.earlier.offsets + 1)},
    ):
        assert fingerprint(replace(examples, **change)) != fingerprint(examples), change.keys()


def test_the_baseline_of_nobody_at_step_0_calls_every_session_a_purchase(study: Path, log_folder: Path) -> None:
    _, cells = load_study(study)
    share = draw(log_folder, PLAN.samples[1]).purchase.mean()
    at_0 = [cell for cell in cells if (cell.setting, cell.scheme, cell.step) == ("anonymous", "grouped", 0)]
    for model in PLAN.models:
        summary = [one.scores[model]["baseline"]["f1"] for one in at_0]
        assert np.mean(summary) == pytest.approx(2 * share / (1 + share), abs=0.02)
    assert [one.scores["rf"]["baseline"]["roc_auc"] for one in at_0] == [0.5] * 2


def test_the_forest_says_what_it_goes_by(study: Path) -> None:
    _, cells = load_study(study)
    late = next(cell for cell in cells if (cell.setting, cell.scheme, cell.step) == ("anonymous", "grouped", 2))
    assert sum(late.importance["impurity"].values()) == pytest.approx(1)
    assert set(late.importance["permutation"]) == {one.name for one in features_of("anonymous")}
    assert late.importance["permutation"]["number of pages"] == 0  # always two


def test_the_summary_has_means_intervals_and_corrected_comparisons(study: Path) -> None:
    card, cells = load_study(study)
    summary = summarise(card, cells)
    row = next(
        row
        for row in summary.rows
        if (row.setting, row.scheme, row.model, row.feature_set, row.step)
        == ("anonymous", "grouped", "rf", "extended", 2)
    )
    values = [
        cell.scores["rf"]["extended"]["f1"]
        for cell in cells
        if (cell.setting, cell.scheme, cell.step) == ("anonymous", "grouped", 2)
    ]
    assert row.means["f1"] == pytest.approx(np.mean(values))
    assert row.low < row.means["f1"] < row.high
    assert all(0 <= each.low <= each.high <= 1 for each in summary.rows if not np.isnan(each.low))  # t of one degree
    of_step = [cell for cell in cells if (cell.setting, cell.scheme, cell.step) == ("anonymous", "grouped", 2)]
    ratio = np.mean([cell.test / cell.train for cell in of_step])
    gains = np.array([
        cell.scores["rf"]["extended"]["roc_auc"] - cell.scores["rf"]["baseline"]["roc_auc"] for cell in of_step
    ])  # fmt: skip
    compared = next(
        each
        for each in summary.comparisons
        if (each.measure, each.setting, each.model, each.step) == ("roc_auc", "anonymous", "rf", 2)
    )
    half = t.ppf(0.975, 1) * (gains.var(ddof=1) * (1 / 2 + ratio)) ** 0.5
    assert (compared.low, compared.high) == pytest.approx((gains.mean() - half, gains.mean() + half))
    assert len(summary.comparisons) == 2 * 2 * 2 * 3  # measures, settings, models, steps
    tested = [one for one in summary.comparisons if not np.isnan(one.p)]
    assert all(one.p <= one.corrected <= 1 for one in tested)
    # F1 against a baseline that calls every session a purchase is shown, and not tested
    untested = {(one.measure, one.setting, one.step) for one in summary.comparisons if np.isnan(one.p)}
    assert ("f1", "anonymous", 0) in untested and not any(measure == "roc_auc" for measure, *_ in untested)
    for setting in ("anonymous", "identified"):  # one family, of both measures
        family = [one for one in tested if one.setting == setting]
        assert {one.measure for one in family} == {"f1", "roc_auc"}
        assert [one.corrected for one in family] == pytest.approx(adjust([one.p for one in family]).tolist())
    assert summary.static_share[0] == pytest.approx(1)
    assert summary.static_share[2] < 1
    assert {one.setting for one in summary.optimism} == {"anonymous", "identified"}
    assert isinstance(summary.comparisons[0], FeatureSetComparison)


def test_a_summary_shows_itself(study: Path) -> None:
    summary = summarise(*load_study(study))
    assert repr(summary).startswith("Summary(anonymous, identified: lr, rf)\n  steps 0 to ")
    assert "svg" in (summary._repr_html_() or "") and "| LR " in summary.to_markdown()
    assert summary.to_arrow().num_rows == len(summary.rows)


def test_the_constant_classifier_stands_beside_every_reading(study: Path, log_folder: Path) -> None:
    summary = summarise(*load_study(study))
    for sample in PLAN.samples:
        bought = draw(log_folder, sample).purchase
        # Every session called a purchase: all that bought are hits, of n predicted: 2 · b / (n + b).
        expected = 100 * 2 * bought.sum() / (len(bought) + bought.sum())
        *_, last = f1_table(summary, sample.setting).rows
        assert last[:2] == ("all bought", "none") and last[2:] == (pytest.approx(expected),) * 3
        *_, last = measures_table(summary, sample.setting, 1).rows
        assert last[:2] == ("all bought", "none")
        assert last[2:7] == (pytest.approx(expected), None, None, 50.0, pytest.approx(100 * bought.mean()))
        assert "all bought" not in [row[0] for row in f1_table(summary, sample.setting, "temporal").rows]
    assert all_bought(0.923)["f1"] == pytest.approx(0.96, abs=1e-4)  # 1.846 / 1.923


def test_the_thesis_s_readings_are_another_study(log_folder: Path, tmp_path: Path) -> None:
    options = {
        "settings": ["identified"],
        "models": ["lr"],
        "folds": 2,
        "schemes": ["grouped"],
        "min_pages": 4,
        "jobs": 1,
    }
    readings = {"setting_from": "session", "counted_pages": "all", "dwell_times": "current page"}
    ours = predict(log_folder, tmp_path / "ours", **options)
    thesis = predict(log_folder, tmp_path / "thesis", **options, **readings)
    assert thesis.card["drawn"]["identified"]["sessions"] > ours.card["drawn"]["identified"]["sessions"]
    assert {name: thesis.card["plan"]["samples"][0][name] for name in readings} == readings
    with refused(VisirError, code="holds-another-study"):
        predict(log_folder, tmp_path / "ours", **options, dwell_times="current page")
    with refused(ConfigurationError, "dwell_times", "current", meant="current page"):
        Sample("identified", dwell_times="current")  # type: ignore[arg-type]


def test_the_corrected_t_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, variance 1; 1/3 + test/train 0.5: t = 2 / sqrt(1 · (1/3 + 1/2)) = 2.19, 2 degrees.

    tested = difference(np.array([1.0, 2.0, 3.0]), 0, test="folds", ratio=0.5)
    p, half = tested.p, tested.high - 2
    assert p == pytest.approx(2 * t.sf(2 / (5 / 6) ** 0.5, 2))
    assert half == pytest.approx(t.ppf(0.975, 2) * (5 / 6) ** 0.5)
    zeros, ones = (difference(values, 0, test="folds", ratio=0.5) for values in (np.zeros(3), np.ones(3)))
    # the same gain in every fold leaves nothing to judge chance by: neither p = 0 nor an interval of no width
    assert (zeros.p, *zeros.ends) == pytest.approx((1.0, np.nan, np.nan), nan_ok=True)
    assert np.isnan((ones.p, *ones.ends)).all() and ones.reason == "all folds give the same"


@pytest.mark.parametrize("model", MODELS)
def test_weights_make_up_for_a_rare_class(model: str, log_folder: Path) -> None:
    examples = draw(log_folder, Sample("identified", min_pages=6, setting_from="session"))
    rare = np.flatnonzero(~examples.purchase | (np.cumsum(examples.purchase) % 5 == 0))
    learnt = LearntFeatures.of(features_of("identified"), examples)
    matrix, purchase = learnt.matrix(examples, 4)[rare], examples.purchase[rare]
    assert purchase.mean() < 0.25
    fitted = fit(model, learnt, matrix, purchase)
    balanced = fitted.balanced(learnt, matrix)
    bought = balanced[purchase].mean()
    assert bought > 0.5 or model == "mlp"  # a tenth of so few rows stops the net early
    assert (balanced[purchase] >= 0.5).mean() > (balanced[~purchase] >= 0.5).mean()
    chance = fitted.probability(learnt, matrix)
    assert abs(chance.mean() - purchase.mean()) < abs(balanced.mean() - purchase.mean())


def test_what_trees_and_distances_read() -> None:
    features = tuple(
        one for one in features_of("anonymous") if one.name in ("channel type", "start hour", "number of pages")
    )
    learnt = LearntFeatures(features, ({}, {"names": ["direct", "paid"]}, {}))
    matrix = np.array([[3.0, 1.0, 6.0], [np.nan, np.nan, 0.0]])
    assert for_trees(matrix).tolist() == [[3, 1, 6], [MISSING, MISSING, 0]]
    columns = expanded(learnt, matrix)  # log(1 + pages), missing; direct, paid, neither; sin, cos
    np.testing.assert_allclose(columns[0], [np.log(4), 0, 0, 1, 0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(columns[1], [np.nan, 1, 0, 0, 1, 0, 1], atol=1e-15)
    scaled = Scaling.from_json(Scaling.of(columns).to_json()).apply(columns)
    np.testing.assert_allclose(scaled[:, 1], [-1, 1])
    assert scaled[1, 0] == 0
