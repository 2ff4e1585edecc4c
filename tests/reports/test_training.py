"""Curves of trainings and their page: what is on them, whatever is missing, the same bytes for the same input."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from refusals import refused
from visir.errors import VisirError
from visir.reports import training as curves
from visir.reports.plot import Plot
from visir.reports.plots import SERIES, to_svg
from visir.reports.training import TrainingRun, read_training_run, training_report
from visir.storage import Manifest

HOSTILE = "<script>alert(1)</script>"


def texts(plot: Plot) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(to_svg(plot)).iter("{http://www.w3.org/2000/svg}text")]


def run(label: str = "a", steps: int = 30, bound: float = 0.2) -> TrainingRun:
    at = np.arange(1.0, steps + 1)
    loss = 3 / np.sqrt(at)
    return TrainingRun(
        label,
        {"step": at, "epoch": np.ceil(at / 10), "loss": loss, "contrastive": loss / 2, "ltd": 1 / at,
         "ltd multiplier": np.linspace(1, 0, steps), "learning rate": at * 1e-3},
        {"step": np.array([10.0, 20.0, 30.0]), "epoch": np.arange(1.0, 4.0), "rsum": np.array([100.0, 300.0, 200.0])},
        {"ltd": bound},
        2,
    )  # fmt: skip


def folder(path: Path, *, auxiliary: dict[str, Any] | None = None, name: str = "tiny") -> Path:
    """A checkpoint's folder, as far as a report reads it: two epochs of two steps."""
    path.mkdir()
    facts = {"temperature": 0.05, **({"ltd multiplier": 1.5} if auxiliary else {})}
    losses = {"loss": 2.0, "contrastive": 1.5, **({"ltd": 0.5} if auxiliary else {})}
    measures = {f"{side} hit@{k}": 10.0 * k for side in ("i2t", "t2i") for k in (1, 5, 10)}
    curve = [
        {"epoch": n, "losses": losses, "facts": facts, "validation": {**measures, "rsum": 300.0 + n}, "seconds": 1.0,
         "rate": 10.0}
        for n in (1, 2)
    ]  # fmt: skip
    recipe = {
        "name": name, "seed": 3, "data": {"collection": HOSTILE}, "image": {"tower": "frozen"},
        "text": {"tower": "gru"}, "objective": {"name": "infonce"}, "auxiliary": {"ltd": auxiliary, "itd": None},
        "selection": {"keep": "rsum"},
    }  # fmt: skip
    about = {
        "recipe": recipe, "chosen_epoch": 2, "validation": curve[1]["validation"], "curve": curve,
        "seconds": {"preparation": 1.0, "training": 2.0}, "peak_memory": {"process": 3 * 2**20},
        "versions": {"visir": "0", "torch": "2"}, "processes": 1, "threads": 2,
    }  # fmt: skip
    steps = [
        {"step": n, "epoch": 1 + (n > 2), "losses": losses, "facts": facts, "learning_rate": 0.1} for n in range(1, 5)
    ]
    (path / "visir.json").write_bytes(Manifest("towers", {"facts": about}).to_bytes())
    (path / "curve.json").write_text(json.dumps(curve))
    (path / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    (path / "recipe.toml").write_text(f'name = "{name}"\n[data]\ncollection = "{HOSTILE}"\n')
    return path


def test_a_run_is_read_with_its_bounds_and_the_steps_at_which_epochs_end(tmp_path: Path) -> None:
    found = read_training_run(folder(tmp_path / "x", auxiliary={"join": "constraint", "bound": 0.2}))
    assert (found.label, found.chosen, found.bounds, found.auxiliaries) == ("x", 2, {"ltd": 0.2}, ("ltd",))
    assert found.epochs["step"].tolist() == [2, 4] and found.epochs["rsum"].tolist() == [301, 302]
    assert found.steps["ltd multiplier"].tolist() == [1.5] * 4
    assert read_training_run(folder(tmp_path / "y", auxiliary={"join": "dual", "bound": 0.2})).bounds == {}


def test_the_page_is_one_file_that_runs_and_fetches_nothing(tmp_path: Path) -> None:
    made = folder(tmp_path / "x", auxiliary={"join": "constraint", "bound": 0.2})
    page = training_report(made).write(made / "training.html").read_text()
    assert training_report(made).write(tmp_path / "again.html").read_text() == page
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page) and "<script" not in page
    assert "LTD: multiplier λ" in page and "rsum over both tasks <b>302.0</b> of 600, epoch 2 of 2" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert ">Temperature<" not in page, "a fixed one is in the table"
    assert "R@" not in page, "what validation counts are hits"
    plain = folder(tmp_path / "y")
    assert "multiplier" not in training_report(plain).write(plain / "training.html").read_text()


def test_several_trainings_lie_over_each_other_each_in_its_colour() -> None:
    three = [run("one"), run("two"), run("$3$", bound=0.1)]
    for drawn in (
        curves.loss_curves(three),
        curves.reconstruction_curves(three),
        curves.multiplier_curves(three),
        curves.rsum_curves(three),
        curves.learning_rate_curves(three),
    ):
        assert {"one", "two", "$3$"} <= set(texts(drawn))
        assert all(colour.lower() in to_svg(drawn).lower() for colour in SERIES[:3])
    # Their bounds differ, so each is in its training's colour; of one bound the value is told.
    assert not any("η" in one for one in texts(curves.reconstruction_curves(three)))
    assert "η 0.2" in texts(curves.reconstruction_curves(three[:2]))


def test_a_multiplier_of_zero_has_a_place_on_the_logarithmic_axis() -> None:
    assert {"0.01", "0.1", "1", "2"} <= set(texts(curves.multiplier_curves([run()])))
    high = TrainingRun("x", {"step": np.arange(1.0, 9), "ltd multiplier": np.geomspace(1, 100, 8)})
    assert "100" in texts(curves.multiplier_curves([high]))


def test_the_mean_over_steps_is_the_obvious_one() -> None:
    # 200 steps: the mean over the last four, fewer at the beginning; NaN does not enter.
    values = np.random.default_rng(0).normal(size=200)
    values[50] = np.nan
    expected = [np.nanmean(values[max(0, at - 3) : at + 1]) for at in range(200)]
    np.testing.assert_allclose(curves._averaged(values), expected, atol=1e-12)


def test_long_trainings_stay_small() -> None:
    long = run(steps=200_000)
    assert len(to_svg(curves.loss_curves([long]))) < 150_000


def test_a_curve_that_nobody_has_is_an_error() -> None:
    bare = TrainingRun("x", {"step": np.arange(3.0)})
    with refused(VisirError, "temperature", code="no-training-steps"):
        curves.temperature_curves([bare])


def test_parts_of_losses_are_losses_in_the_evaluation_report_too() -> None:
    from visir.reports import plots

    history = [{"epoch": n, "losses": {"loss": 2.0, "contrastive": 1.0, "ltd": 0.5},
                "facts": {"ltd multiplier": 2.0}, "validation": {"t2i hit@1": 5.0}} for n in (1, 2)]  # fmt: skip
    labels = texts(plots.training_curves(history))
    assert {"loss", "contrastive loss", "ltd loss", "t2i hit@1"} <= set(labels)
    assert not any("multiplier" in one for one in labels)
    lone = plots.training_curves([{"epoch": 1, "losses": {"loss": 2.0, "contrastive": 2.0}}])
    assert not any("contrastive" in one for one in texts(lone))
