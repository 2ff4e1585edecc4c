"""`visir sessions predict|report|train|score`, end to end on a small log."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from intent_log import folder_of, random_log
from typer.testing import CliRunner

from visir.sessions.cli import app

for package in ("duckdb", "sklearn", "skops"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

LOG = random_log(50)


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(LOG, tmp_path_factory.mktemp("log"))


def said(*arguments: str, given: str | None = None) -> str:
    answer = CliRunner().invoke(app, arguments, input=given, env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert answer.exit_code == 0, answer.output or answer.exception
    return answer.output


def test_a_study_and_its_page(log_folder: Path, tmp_path: Path) -> None:
    study, page = tmp_path / "study", tmp_path / "page.html"
    how = ["--min-pages", "4", "--folds", "2", "--classifier", "lr", "--classifier", "rf", "--jobs", "1"]
    output = said("predict", str(log_folder), "--out", str(study), *how)
    assert "F1 by step, anonymous (grouped folds)" in output
    assert "F1 by step, identified (grouped folds)" in output
    numbers = json.loads(said("report", str(study), "--out", str(page), "--json"))
    text = page.read_text()
    for part in (
        "Figure 6.7",
        "Figure 6.6",
        "switch probability",
        "Other ways to split",
        "Nadeau",
        "all called a purchase",
    ):
        assert part in text
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert {row["scheme"] for row in numbers["rows"]} == {"grouped", "temporal", "ungrouped"}
    before = page.read_bytes()
    said("report", str(study), "--out", str(page), "--replace")
    assert page.read_bytes() == before


@pytest.fixture(scope="module")
def model(log_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "lr"
    thesis = ["--protocol", "thesis", "--classifier", "lr", "--min-pages", "8"]
    output = said("train", str(log_folder), "--out", str(out), *thesis)
    assert f"visir sessions score {out}" in output
    return out


def test_scores_of_a_stream_as_json_lines_and_as_csv(model: Path) -> None:
    rows = LOG[:200]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    output = [json.loads(line) for line in said("score", str(model), given=lines).splitlines()]
    assert {one["setting"] for one in output} == {"anonymous", "identified"}
    assert {one["step"] for one in output} == set(range(7))
    assert all(0 < one["probability"] < 1 for one in output)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    assert [json.loads(line) for line in said("score", str(model), given=stream.getvalue()).splitlines()] == output


def test_lines_that_are_no_events_are_told(model: Path) -> None:
    lines = [json.dumps(LOG[0]), "{", json.dumps({**LOG[1], "visitor": None}), "[1]", json.dumps(LOG[2])]
    output = said("score", str(model), given="\n".join(lines))
    assert "line 2: " in output
    assert "line 4: " in output
    assert "rejected: 2 malformed" in output
    assert "rejected: 1 no_visitor" in output


def test_history_of_a_log_changes_what_is_said_of_its_customers(model: Path, log_folder: Path) -> None:
    known = next(row for row in reversed(LOG) if row["customer"] and row["action"] == "page")
    line = json.dumps({**known, "time": known["time"] + 86_400_000_000})
    alone = json.loads(said("score", str(model), given=line).splitlines()[0])
    again = json.loads(said("score", str(model), "--history", str(log_folder), given=line).splitlines()[0])
    assert alone["session"] == 1 < again["session"]
    assert alone["probability"] != again["probability"]


@pytest.mark.nightly
def test_a_killed_study_leaves_no_process_and_goes_on(log_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "visir", "sessions", "predict", str(log_folder), "--out", str(tmp_path / "study")]
    command += ["--min-pages", "4", "--folds", "3", "--classifier", "gbdt", "--folds-by", "grouped", "--jobs", "2"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    cells = tmp_path / "study" / "cells"
    deadline = time.monotonic() + 120
    # A cell counts once the manifest names it: a file that a kill left unnamed is written again.
    while not _finished(cells):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait()
    while _alive(started.pid):
        assert time.monotonic() < deadline, "its workers live on"
        time.sleep(0.1)
    times = {name: (cells / name).stat().st_mtime_ns for name in _finished(cells)}
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(cells.glob("*-step*.json"))) == 2 * 3 * 3
    assert {name: (cells / name).stat().st_mtime_ns for name in times} == times


def _finished(cells: Path) -> list[str]:
    manifest = cells / "visir.json"
    return [name for name in json.loads(manifest.read_text())["files"] if "-step" in name] if manifest.is_file() else []


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_faults_name_the_next_action(log_folder: Path, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["train", str(log_folder), "--out", str(tmp_path / "m"), "--classifier", "gbtd"])
    assert "did you mean 'gbdt'" in str(answer.exception)
    answer = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "x.html")])
    assert "visir sessions predict SESSIONS" in str(answer.exception)
