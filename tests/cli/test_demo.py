"""`visir demo` end to end, on fewer scenes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import visir.cli.doctor
from visir.cli.main import app


def test_the_demo_leaves_a_model_a_result_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visir.cli.doctor, "SCENES", "scenes:200")
    out = tmp_path / "demo"
    ran = CliRunner().invoke(app, ["demo", "--out", str(out), "--no-open"], env={"COLUMNS": "160"})
    assert ran.exit_code == 0, ran.output
    assert "$ visir train scenes-heads" in ran.output
    assert " R@10 " in ran.output
    assert "scene-0-" in ran.output  # an answer, not only numbers
    assert (out / "result" / "report.html").stat().st_size > 10_000
    again = CliRunner().invoke(app, ["demo", "--out", str(out), "--no-open"])
    assert again.exit_code == 0, again.output
    assert "is trained already" in again.output


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    missing = CliRunner().invoke(app, ["demo", "--data", "flickr8k"])
    assert "set VISIR_DATA to the folder that holds flickr8k/" in str(missing.exception)
    unknown = CliRunner().invoke(app, ["demo", "--data", "scene"])
    assert "did you mean 'scenes'?" in str(unknown.exception)


def test_ctrl_c_ends_the_demo_and_says_how_to_go_on(tmp_path: Path) -> None:
    """In the middle of a step: no further step is begun, no traceback, status 130."""
    command = [sys.executable, "-m", "visir", "demo", "--out", str(tmp_path / "demo"), "--no-open"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background work ignores it
    )
    assert running.stdout is not None
    while "visir train" not in (line := running.stdout.readline()):
        assert line, running.communicate()
    time.sleep(3)
    running.send_signal(signal.SIGINT)
    said, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "visir evaluate" not in said and "Traceback" not in told
    assert f"visir demo --out {tmp_path / 'demo'} --data scenes" in told and "the same command goes on" in told
