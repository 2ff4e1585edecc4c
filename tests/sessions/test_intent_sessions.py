"""`visir sessions make`, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verbs import Said
from visir.errors import VisirError
from visir.sessions.cli import app

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

MAPPING = """
format = "csv"
unit = "s"
bot = "agent = 'crawler'"
[raw]
visitor = ["client_id", "clientId"]
time = "t"
agent = "agent"
what = "what"
[events]
visitor = "visitor"
time = "time"
action = "what"
device = "agent"
[actions]
view = "page"
buy = "order"
"""


def run(*arguments: object) -> Said:
    found = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160", "NO_COLOR": "1"})
    if isinstance(found.exception, VisirError):
        return Said(2, found.output + str(found.exception))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Said(found.exit_code, found.output)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Six rows and a line that is none; the visitor's column is renamed in the second file."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.csv").write_text(
        "client_id,t,agent,what\na,100,pc,view\na,160,pc,buy\na,100,pc,view\n,100,pc,view\nb,1,pc,view,surplus\n"
    )
    (tmp_path / "log" / "2.csv").write_text("t,clientId,agent,what\n130,a,pc,stare\n200,b,crawler,view\n")
    (tmp_path / "mapping.toml").write_text(MAPPING)
    return tmp_path / "log"


def rows(text: str) -> dict[str, str]:
    """The table's first column → its second."""
    parts = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if "│" in line]
    return {cells[0]: cells[1] for cells in parts}


def test_counts_are_told_and_written(log: Path, tmp_path: Path) -> None:
    result = run("make", log, "--mapping", tmp_path / "mapping.toml", "--out", tmp_path / "out")
    assert result.status == 0, result.text
    # Of six rows one has no visitor, one is a crawler's, one is a duplicate; "stare" is no action that is named, and
    # arrives after the order that came 30 seconds later.
    expected = {
        "rows read": "6", "accepted": "3", "rejected: no_visitor": "1", "rejected: bot": "1",
        "rejected: duplicate": "1",
        "accepted: late": "1", "accepted: unknown_action": "1", "malformed lines": "1", "visitors": "1",
        "sessions": "1", "identified": "0", "with a purchase": "1", "both": "0",
    }  # fmt: skip
    assert {name: count for name, count in rows(result.text).items() if name} == expected
    assert json.loads((tmp_path / "out" / "counts.json").read_text())["counts"]["accepted"] == 3


def test_a_folder_that_is_there_is_left_alone_unless_told(log: Path, tmp_path: Path) -> None:
    command = ("make", log, "--mapping", tmp_path / "mapping.toml", "--out", tmp_path / "out")
    assert run(*command).status == 0
    result = run(*command)
    assert (result.status, "exists already" in result.text) == (2, True)
    assert run(*command, "--replace", "--idle", 0.5, "--buckets", 2, "--threads", 1, "--memory", "1GB").status == 0
    # Thirty seconds do not end it, and none of the options changes what is found.
    assert json.loads((tmp_path / "out" / "counts.json").read_text())["counts"]["sessions"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--preset NAME (events, ga-sessions, ga4-events, hotel-search, shop-events) or --mapping FILE"),
        (("--preset", "events", "--mapping", "m.toml"), "in one of two ways"),
        (("--preset", "event"), "did you mean 'events'"),
        (("--mapping", "nowhere.toml"), "nowhere.toml: no such file"),
        (("--preset", "events"), "no file that ends in .parquet"),
    ],
)
def test_faults_are_told(log: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("make", log, *arguments, "--out", tmp_path / "out")
    assert result.status == 2
    assert message in result.text
    assert not (tmp_path / "out").exists()
