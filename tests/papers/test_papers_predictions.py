"""Figures 6.6 and 6.7 as studies: one prediction study for all cells of a setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers_logs import FIVE, log, ran

from visir.files import read_json
from visir_papers.experiments.predict import PredictExperiment
from visir_papers.reports.pages import figures_of
from visir_papers.reports.tables import grids, notes_of, tables_of
from visir_papers.study import read_study

for package in ("duckdb", "sklearn", "numba"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")


PREDICTION = """
title = "Toy"
paper = "Toy, Figure 1"
published = "none"
claims = "None."
pairs = "none"
trend_checks = "figure-6-{number}"
of_images = false

[smoke]
data = "generated"
description = "Two hundred sessions."
hours = 0.01
cells = [
{cells}
]

[smoke.defaults]
experiment = "predict"
log = "{log}"
mapping = "{mapping}"
sessions = 200
min_pages = 4
folds = 2
"""


def prediction(path: Path, number: int, cells: list[str], log: str = "generated:3000", mapping: str = "") -> Path:
    said = "\n".join(f"    {{ {one} }}," for one in cells)
    path.write_text(PREDICTION.format(number=number, cells=said, log=log, mapping=mapping))
    return path


def test_figures_6_6_and_6_7_share_one_prediction_study_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.sessions.prediction.study.usable_cores", lambda: 1)  # no processes, which take seconds
    out = tmp_path / "out"
    curves = [
        f'system = "anonymous, RF, {one}", setting = "anonymous", model = "rf", features = "{one}"'
        for one in ("baseline", "extended")
    ]
    curves.append('system = "anonymous, all bought", setting = "anonymous", quantity = "all bought"')
    path = prediction(tmp_path / "curves.toml", 7, curves)
    cells, found = ran(path, "smoke", out)
    assert [(one.state, one.reason) for one in cells] == [("done", "")] * 3
    # Four pages: the last step is two before. F1 first, then what the thesis does not print.
    steps = ["step 0", "step 1", "step 2"]
    others = ("ROC-AUC", "PR-AUC", "calibration error")
    assert list(cells[0].measured.values) == [*steps, *(f"{one}, {step}" for one in others for step in steps)]
    assert cells[0].measured.protocol["anonymous sessions"].startswith("200, ")
    # The baseline knows nothing at step 0 and calls everything a purchase, in each fold; so does "all bought", at once.
    baseline, _, bought = (one.measured.values for one in cells)
    share = bought["PR-AUC, step 0"] / 100
    assert cells[0].measured.protocol["anonymous sessions"].startswith(f"200, {200 * share:.0f} with a purchase")
    assert bought["step 2"] == pytest.approx(100 * 2 * share / (1 + share))
    assert (baseline["ROC-AUC, step 0"], bought["ROC-AUC, step 0"]) == (50, 50)
    assert baseline["step 0"] == pytest.approx(bought["step 0"], abs=0.5)
    assert "calibration error, step 0" not in bought
    # The draws of F1 have the interval that the study itself gives, as far as 1,000 of them can: two folds leave one
    # degree of freedom, and the width then has a standard deviation of 12 % over seeds.
    (summary,) = out.glob("shared/sessions/generated-3000-seed0/predict-anonymous-*/summary.json")
    rows = [row for row in read_json(summary)["rows"] if (row["model"], row["feature_set"]) == ("rf", "extended")]
    for row in rows:
        low, high = np.quantile(cells[1].measured.draws[f"step {row['step']}"], [0.025, 0.975]).clip(0, 100)
        assert 0 <= row["low"] < row["high"] <= 1
        assert (high - low) / 2 == pytest.approx(50 * (row["high"] - row["low"]), rel=0.4)
    assert cells[2].measured.draws == {}
    (kept,) = out.glob("shared/sessions/generated-3000-seed0/predict-anonymous-*/cells")
    assert len(list(kept.glob("*fold*.json"))) == 2 * 3
    made = grids(found, notes_of(found))
    assert [one.caption.rpartition("(smoke)")[2] for one in made] == ["", *(f", {one}" for one in others)]
    assert [column.name for column in made[0].columns] == ["system", *steps]
    assert [row[0] for row in made[0].rows] == [one.system for one in cells]
    assert made[0].rows[0][3] == cells[0].measured.values["step 2"]
    assert made[1].rows[1][1] == cells[1].measured.values["ROC-AUC, step 0"]
    assert [one.name for one in made[3].columns] == ["value", cells[0].system, cells[1].system], (
        "all bought: no chances"
    )
    (figure,) = figures_of(found)
    assert "all called a purchase" in figure.svg
    assert figure.title == "Toy"
    # Killed in the middle: a cell and the summary are gone. The other figure finishes it; the numbers are the same.
    stamps = {one: one.stat().st_mtime_ns for one in kept.glob("*fold*.json")}
    gone = kept / "anonymous-grouped-fold01-step02.json"
    before = gone.read_text().partition('"seconds"')[0]
    gone.unlink()
    (kept.parent / "summary.json").unlink()
    fading = ['system = "anonymous", setting = "anonymous", quantity = "importance"']
    fading += ['system = "static features", setting = "anonymous", quantity = "static share"']
    (importance, static), second = ran(prediction(tmp_path / "fading.toml", 6, fading), "smoke", out)
    assert gone.read_text().partition('"seconds"')[0] == before
    assert all(one.stat().st_mtime_ns == stamp for one, stamp in stamps.items() if one != gone)
    assert static.measured.values["step 0"] == pytest.approx(100)
    assert sum(importance.measured.values.values()) == pytest.approx(100)
    assert [shape.statement for shape in second.trend_checks][2:3] == ["static features have all of it at step 0"]
    assert [one.caption.partition(":")[0] for one in tables_of(second)] == ["Toy, Figure 1"] * 3
    assert len(grids(second, [])) == 2, "features and steps have grids of their own; the third table is of shapes"
    assert len(figures_of(second)) == 2, "what the anonymous forest goes by, and static features over steps"


def test_at_full_scale_the_readings_are_the_thesis_s_with_the_other_beside_it() -> None:
    thesis = {"setting_from": "session", "counted_pages": "all"}
    for experiment in read_study("thesis-figure-6-6").experiments("full"):
        assert {name: getattr(experiment, name) for name in thesis} == thesis
    by_collection: dict[str, set[tuple[str, str]]] = {}
    rows: dict[str, set[str]] = {}
    for experiment in read_study("thesis-figure-6-7").experiments("full"):
        assert isinstance(experiment, PredictExperiment) and experiment.min_pages == 12
        reading = (experiment.setting_from, experiment.counted_pages)
        by_collection.setdefault(experiment.collection, set()).add(reading)
        rows.setdefault(experiment.collection, set()).add(experiment.system)
    assert by_collection == {
        "by the whole session (thesis)": {("session", "all")},
        "by the first request": {("start", "before order")},
    }
    for systems in rows.values():
        assert {"anonymous, all bought", "identified, all bought"} <= systems and len(systems) == 26


def test_logs_with_other_chances_are_logs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.sessions.prediction.study.usable_cores", lambda: 1)
    shares = {}
    logs = {"start": "generated:3000", "session": "generated:3000?logs_in=0&logs_in_at_checkout=1"}
    for number, (reading, source) in enumerate(logs.items()):
        cell = (
            f'system = "s", setting = "identified", quantity = "all bought", model = "lr", setting_from = "{reading}"'
        )
        path = prediction(tmp_path / f"{number}.toml", 7, [cell], source)
        (found,), _ = ran(path, "smoke", tmp_path / "out")
        assert (found.state, found.reason) == ("done", "")
        shares[reading] = found.measured.values["PR-AUC, step 0"]
        assert found.measured.protocol["setting from"].startswith("the first" if number == 0 else "the whole")
    assert shares["session"] > 60 > 40 > shares["start"], "who logs in to pay is known to buy, nearly always"
    names = sorted(path.name for path in (tmp_path / "out" / "shared" / "sessions").iterdir())
    assert names == ["generated-3000-logs_in-0-logs_in_at_checkout-1-seed0", "generated-3000-seed0"]


def test_a_log_without_sessions_of_a_setting_is_not_run(tmp_path: Path) -> None:
    path = prediction(
        tmp_path / "toy.toml",
        7,
        ['system = "identified, LR, baseline", setting = "identified", model = "lr", features = "baseline"'],
        str(log(tmp_path / "first.parquet", FIVE)),
        "events",
    )
    (cell,), _ = ran(path, "smoke", tmp_path / "out")
    assert (cell.state, cell.reason) == ("not run", "no identified session of 4 pages.")
