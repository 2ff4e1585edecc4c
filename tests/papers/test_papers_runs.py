"""Running a study: cells are kept, failures are marked, a kill loses nothing that was finished; the report."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import papers_killed
import pytest
from papers_toys import counting

import visir_papers
from refusals import refused
from visir.errors import CollectionError, VisirError
from visir.files import read_json
from visir.storage import MANIFEST, Manifest
from visir_papers.cells import StudyFolder, TableCell
from visir_papers.cells import run_study as run
from visir_papers.cli import app
from visir_papers.reports.pages import write_papers_report
from visir_papers.status import show
from visir_papers.study import read_study


def report_of(path: Path, out: Path) -> dict[str, bytes]:
    """Every file of the report."""
    write_papers_report(out / "report", [show(path, out=out)])
    return {one.name: one.read_bytes() for one in sorted((out / "report").rglob("*")) if one.is_file()}


def test_a_killed_study_goes_on_and_ends_in_the_same_report(tmp_path: Path) -> None:
    path, out, whole = counting(tmp_path), tmp_path / "killed", tmp_path / "whole"
    kept = out / "toy" / "smoke" / "cells"
    process = subprocess.Popen([sys.executable, str(Path(papers_killed.__file__)), str(path), str(out)])
    deadline = time.monotonic() + 240
    while not (kept / MANIFEST).is_file() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {kept / name: (kept / name).stat().st_mtime_ns for name in Manifest.read(kept).files}
    assert before, "a cell was finished when the kill came"
    study = read_study(path)
    cells = run(study, "toy", "smoke", out)
    assert [one.state for one in cells] == ["done"] * 6
    assert all(one.stat().st_mtime_ns == time_of for one, time_of in before.items()), (
        "what is finished is not run again"
    )
    run(study, "toy", "smoke", whole)
    assert report_of(path, out) == report_of(path, whole)


def test_from_python(tmp_path: Path) -> None:
    path, out = counting(tmp_path), tmp_path / "out"
    tables = visir_papers.studies()
    assert [len(tables), tables[0].name] == [42, "brittleness-table-1"] and "thesis-table-3-2" in tables.to_markdown()
    assert repr(tables).startswith("StudyList(42 tables and figures)\n  brittleness-table-1: ")
    with pytest.raises(VisirError, match=r"nothing was run in .*out\.\n  → visir papers run"):
        visir_papers.compare(path, out=out)
    assert visir_papers.show(path, out=out).state == "not run"
    assert [cell.state for cell in visir_papers.run(path, out=out, jobs=1).cells] == ["done"] * 6
    comparison = visir_papers.compare(path, out=out)
    assert comparison.scale == "smoke" and visir_papers.show(path, out=out).state == "run at smoke scale only"
    assert repr(comparison).startswith("StudyComparison(") and "6 cells: 6 done" in repr(comparison)
    status = visir_papers.show(path, out=out)
    assert repr(status).startswith("StudyStatus(toy: run at smoke scale only)\n")
    for shown in (tables, status, comparison):
        assert max(map(len, repr(shown).splitlines())) <= 100 and "<table" in (shown._repr_html_() or "")
    measured = [value for value in comparison.values if value.state != "not run"]
    assert comparison.to_arrow().num_rows == len(measured)
    with refused(VisirError, "thesis-table-3-9", code="no-such-study"):
        visir_papers.show("thesis-table-3-9")


def test_a_failure_is_a_cell_and_the_study_goes_on(tmp_path: Path) -> None:
    path = counting(tmp_path, first="scenes:40?sede=1")
    study = read_study(path)
    cells = run(study, "toy", "smoke", tmp_path / "out")
    assert [one.state for one in cells] == ["failed", "done", "done"] * 2
    assert "sede" in cells[0].reason
    page = report_of(path, tmp_path / "out")["report.html"].decode()
    assert "failed" in page
    done = {one: one.stat().st_mtime_ns for one in (tmp_path / "out/toy/smoke/cells").glob("MS-COCO-FG*")}
    counting(tmp_path)  # mended: only what failed is run again
    assert [one.state for one in run(read_study(path), "toy", "smoke", tmp_path / "out")] == ["done"] * 6
    assert all(one.stat().st_mtime_ns == time_of for one, time_of in done.items())


def test_a_cell_of_other_settings_is_another_cell(tmp_path: Path) -> None:
    path = counting(tmp_path)
    run(read_study(path), "toy", "smoke", tmp_path / "out")
    counting(tmp_path, first="scenes:30")
    assert [one.state for one in show(path, out=tmp_path / "out").comparisons[0].cells] == [
        "not run",
        "done",
        "done",
    ] * 2


def test_an_option_that_is_new_and_not_used_makes_no_other_cell(tmp_path: Path) -> None:
    experiment = read_study("thesis-table-2-1").experiments("smoke")[0]
    cell, folder = TableCell.of(experiment, 0), StudyFolder(tmp_path)
    folder.save(replace(cell, settings={**cell.settings, "later": None}, state="done"))
    assert folder.load(cell).state == "done"
    folder.save(replace(cell, settings={**cell.settings, "later": 1}, state="done"))
    assert folder.load(cell).state == "not run"


def test_data_that_is_missing_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path / "nothing"))
    with pytest.raises(CollectionError) as caught:
        run(read_study("brittleness-table-1"), "brittleness-table-1", "full", tmp_path)
    said = str(caught.value)
    assert "Brittleness, Table 1, scale full: nothing of it can be run here. It lacks:" in said
    assert f"{tmp_path}/nothing/coco/karpathy_coco_test_5k.json.xz is not there" in said
    assert "https://" in said
    assert "visir papers run brittleness-table-1 --scale smoke" in said
    assert not (tmp_path / "brittleness-table-1").exists()


def said(*arguments: object) -> str:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_the_verb_from_list_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path / "nothing"))
    path, out = counting(tmp_path), tmp_path / "out"
    assert "3 cells, seeds 0, 1; two cores, about 1 min" in said("run", path, "--dry-run", "--out", out)
    assert not out.exists()
    assert "toy, smoke: 6 done, 0 failed, 0 not run" in said("run", path, "--out", out)
    compared = said("compare", path, "--out", out)
    assert "not judged" in compared
    assert "reproduced  " not in compared
    assert "the same order on other real data: not looked at: no other real data was used" in compared
    listed = said("list", "--out", out)
    assert "smoke 2/2, logs 0/16, full 0/16" in listed
    shown = said("show", "ltd-table-3")
    assert "lacks COCO: photos of 2014 and Karpathy's splits" in shown
    assert "visir train vsepp-coco" in shown
    said("report", "--out", out)
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert 'src="http' not in page
    assert {one.suffix for one in (out / "tables").iterdir()} == {".md", ".tex", ".csv"}
    with refused(VisirError, "ltd-table-3", "out", code="nothing-run", hint="ltd-table-3"):
        said("compare", "ltd-table-3", "--out", out)


TRAINING = """
title = "Toy"
paper = "Toy, Table 4"
published = "none"
claims = "None."
pairs = "none"
trend_checks = "figure-4-5"

[smoke]
data = "generated"
description = "Sixty scenes."
hours = 0.01
cells = [
    { system = "VSE++, I" },
    { system = "VSE++, II", set = ["shortcuts.kind=unique", "shortcuts.digits=sklearn"] },
]

[smoke.defaults]
experiment = "train"
recipe = "vsepp-scenes-infonce"
collection = "scenes"
set = ["data.collection=scenes:60?size=64", "optimiser.epochs=1"]
"""


@pytest.mark.nightly
def test_trainings_are_shared_between_studies(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(TRAINING)
    first, second = (read_study(tmp_path / f"{name}.toml") for name in ("one", "two"))
    cells = run(first, "one", "smoke", tmp_path / "out")
    assert [(one.state, one.reason) for one in cells] == [("done", "")] * 2
    assert "both rsum" in cells[0].measured.values
    assert "with rsum" in cells[1].measured.values
    trained = sorted((tmp_path / "out/shared/trainings").glob("*/seed0"))
    stamps = [(one / "trial.json").stat().st_mtime_ns for one in trained]
    assert len(stamps) == 2
    assert run(second, "two", "smoke", tmp_path / "out")[1].measured.values == cells[1].measured.values
    assert [(one / "trial.json").stat().st_mtime_ns for one in trained] == stamps
    kept = read_json(next((tmp_path / "out/one/smoke/cells").glob("VSE++-II-*.json")))
    assert kept["versions"]["visir"]
    assert kept["measured"]["protocol"]["collection"] == "scenes"
    # Evaluated as a model of its own, the checkpoint says the same, and nothing says where it lies.
    first = '{ recipe = "vsepp-scenes-infonce", set = [' + TRAINING.partition("\nset = [")[2].strip() + " }"
    text = (
        TRAINING.partition("cells = [")[0] + 'cells = [{ system = "I", collection = "scenes", experiment = "evaluate", '
    )
    (tmp_path / "three.toml").write_text(f'{text}source = "scenes:60?size=64", training = {first} }}]\n')
    (again,) = run(read_study(tmp_path / "three.toml"), "three", "smoke", tmp_path / "out")
    assert again.reason == ""
    assert again.measured.values == cells[0].measured.values
    assert again.measured.provenance["system"] == "vsepp-scenes-infonce"
    for one in (tmp_path / "out").glob("*/smoke/cells/*.json"):
        assert str(tmp_path) not in one.read_text()


@pytest.mark.nightly
def test_a_training_that_outlives_its_study_is_waited_for(tmp_path: Path) -> None:
    path, out = tmp_path / "toy.toml", tmp_path / "out"
    path.write_text(TRAINING.replace("epochs=1", "epochs=4"))
    process = subprocess.Popen([sys.executable, str(Path(papers_killed.__file__)), str(path), str(out)])
    deadline = time.monotonic() + 240
    while not list(out.glob("shared/trainings/*/seed0/checkpoint/.visir-claims")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list((out / "toy/smoke/cells").glob("*")), "killed before the first cell was finished"
    cells = run(read_study(path), "toy", "smoke", out)
    assert [(one.state, one.reason) for one in cells] == [("done", "")] * 2
    whole = run(read_study(path), "toy", "smoke", tmp_path / "whole")
    assert [one.measured.values for one in cells] == [one.measured.values for one in whole]
