"""`visir sessions generate`, and its sessions by the command that it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusals import refused
from visir.errors import VisirError
from visir.sessions import make
from visir.sessions.cli import app


def run(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})
    if found.exception is not None:
        raise found.exception
    return found.output


def test_a_dirty_log_is_made_and_its_dirt_is_found(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    said = run("generate", "--out", tmp_path / "log", "--sessions", 800, "--seed", 2, "--dirt", 0.03, "--planted")
    sessions = re.search(r"rows, (\d+) sessions, (\d+) with a purchase", said)
    assert sessions
    assert int(sessions[1]) >= 800
    planted = {kind: count for count, kind in re.findall(r"(\d+) (\w+)", said.splitlines()[1])}
    command = shlex.split(said.splitlines()[2].removeprefix("its sessions: visir sessions ").replace("FOLDER", "found"))
    command[-1] = str(tmp_path / "found")
    output = run(*command)
    for kind, count in planted.items():
        assert re.search(rf"(rejected|accepted): {kind} +│ +{count} ", output), (kind, output)
    assert re.search(rf"sessions +│ +{sessions[1]} ", output.replace(",", ""))
    assert re.search(rf"with a purchase +│ +{sessions[2]} ", output)
    assert list((tmp_path / "log" / "planted").glob("*.parquet"))


def test_logins_at_the_checkout_leave_the_others_anonymous(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'sessions'")
    shares = {}
    for chance in (0, 0.7):
        log = tmp_path / f"log{chance}"
        run("generate", "--out", log, "--sessions", 2000, "--logs-in-at-checkout", chance)
        counts = make(log / "events", tmp_path / f"found{chance}", mapping=log / "mapping.toml").counts
        shares[chance] = (
            counts["identified"] / counts["sessions"],
            counts["purchases_identified"] / counts["purchases"],
        )
    # Who buys logs in, whenever. Other sessions of customers are known from their beginning or soon (0.3), or at the
    # checkout, where one in eight comes.
    assert shares[0.7][1] == shares[0][1]
    assert shares[0.7][0] == pytest.approx(shares[0][0] * (0.3 + 0.7 / 8), rel=0.2)


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    run("generate", "--out", tmp_path / "log", "--sessions", 5)
    with refused(VisirError, code="exists-already-folder-kind"):
        run("generate", "--out", tmp_path / "log", "--sessions", 5)
    said = run("generate", "--out", tmp_path / "log", "--sessions", 5, "--replace")
    assert "dirt" not in said
    assert not (tmp_path / "log" / "planted").exists()
