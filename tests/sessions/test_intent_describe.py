"""`visir sessions describe`, end to end, also on the real logs where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from described import folder, visit
from typer.testing import CliRunner

from visir.errors import VisirError
from visir.files import data_directory
from visir.sessions import preset, sessionise
from visir.sessions.cli import app
from visir.sessions.description import describe

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

EVERY = ("table-6-2", "table-6-3", "table-6-4", "table-6-5", "table-6-6", "figure-6-2", "figure-6-3", "figure-6-5")
REAL = {
    "ga-sessions": ("ga_sessions_sample.parquet", {"table-6-3", "table-6-6", "figure-6-3", "figure-6-5"}),
    "ga4-events": ("ga4_events_sample.parquet", {"table-6-3", "table-6-6", "figure-6-5"}),
    "hotel-search": ("hotel_sessions_100k.parquet", {"table-6-2", "table-6-3", "figure-6-5"}),
    "shop-events": ("shop_events_14_days.tar.xz", {"table-6-5", "table-6-6"}),
}
"""Preset → file, and what that log cannot tell."""


def test_the_verb(tmp_path: Path) -> None:
    rows = [visit(f"v{n}", day=n % 7, purchase=n % 3 == 0) for n in range(40)]
    sessions, out = folder(tmp_path / "log", rows), tmp_path / "out"
    arguments = ["describe", str(sessions), "--out", str(out), "--suppress", "3"]
    said = CliRunner().invoke(app, arguments, env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert said.exit_code == 0, said.output
    assert "Cannot be computed: the log names no customer" in said.output
    assert said.output.rstrip().endswith(f"report: {out / 'report.html'}")
    told = json.loads((out / "describe.json").read_text())
    assert told["suppress"] == 3
    assert {one["name"]: one["rows"] for one in told["statistics"]}["table-6-4"] == ["pc"]
    assert (out / "tables" / "figure-6-3.csv").is_file()
    assert not (out / "tables" / "table-6-3.csv").exists()
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, VisirError)
    assert "exists already" in str(again.exception)


@pytest.mark.parametrize("name", REAL)
def test_what_real_logs_tell(name: str, tmp_path: Path) -> None:
    file, silent = REAL[name]
    log = data_directory() / "sessions" / file
    if not log.is_file():
        pytest.skip(f"no {file} in $VISIR_DATA/sessions")
    counts = sessionise(log, preset(name), tmp_path / "sessions")
    found = describe(tmp_path / "sessions", threads=1)
    assert {one for one in EVERY if found.statistic(one).unavailable} == silent
    assert found.statistic("table-6-1").value("Sessions", "Total").value == counts.sessions
    assert found.statistic("table-6-1").value("Purchase sessions", "Total").value == counts.purchases
    for one in found.statistics:
        for row in one.cells:
            for cell in row:
                if cell.low is not None and isinstance(cell.value, (int, float)):
                    assert cell.high is not None
                    assert cell.low <= cell.value <= cell.high
