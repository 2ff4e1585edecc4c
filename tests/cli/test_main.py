"""What all verbs have in common."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from visir.cli.main import all_verbs, app
from visir.library.layout import LIBRARY
from visir.plugins import Application, Verb, applications
from visir.storage import changing

RUN = CliRunner()


def test_a_hint_names_an_option_that_the_verb_knows(tmp_path: Path) -> None:
    generate = ["sessions", "generate", "--out", str(tmp_path / "log"), "--sessions", "5"]
    convert = ["data", "convert", "scenes:8", str(tmp_path / "scenes")]
    for command in (generate, convert):
        assert RUN.invoke(app, command).exit_code == 0
        assert "--replace" in str(RUN.invoke(app, command).exception)
        assert RUN.invoke(app, [*command, "--replace"]).exit_code == 0


def test_every_verb_that_replaces_says_so() -> None:
    def options(command: click.Command) -> set[str]:
        own = {name for one in command.params for name in one.opts}
        return own.union(*map(options, getattr(command, "commands", {}).values()))

    assert "--force" not in options(typer.main.get_command(app))


def test_warnings_are_a_line_without_a_place_in_the_code(tmp_path: Path) -> None:
    Image.new("RGB", (16, 16)).save(tmp_path / "0.png")
    pq.write_table(pa.table({"file": ["0.png"], "caption": ["a"]}), tmp_path / "table.parquet")
    said = visir("library", "make", "table.parquet", "-m", "pixels", "--out", "library", at=tmp_path)
    assert said.returncode == 0
    assert "visir: pixels takes pictures, no texts" in said.stderr
    assert "UserWarning" not in said.stderr and ".py:" not in said.stderr


def test_what_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    begun = tmp_path / "begun.visir"
    with (  # an update that a kill ends leaves this
        contextlib.suppress(KeyboardInterrupt),
        changing(begun, LIBRARY, busy="", resume=True) as change,
    ):
        change.file("items-1.sqlite").touch()
        raise KeyboardInterrupt
    for command, told in (
        (("search", "nope.visir", "cat", "--split", "x"), "nope.visir: no such file or folder"),
        (("compare", "nope"), "nope: no such folder"),
        (("library", "info", "begun.visir"), "begun.visir: the first update of this library was interrupted"),
        (("search", "begun.visir", "cat"), "give the same visir library make PLACE again: it goes on from there"),
    ):
        said = visir(*command, at=tmp_path)
        assert said.returncode == 2 and told in said.stderr, said.stderr


def test_verbs_of_packages_stand_where_they_ask_and_broken_ones_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = (
        Verb("mine", "json:dumps", after="evaluate"),
        Verb("search", "json:loads", extends=True),
        Verb("compare", "json:loads"),
        Verb("lost", "no_such_package:verb"),
        Verb("astray", "json:dumps", group="nowhere"),
    )
    theirs = Application("theirs", asked_for)
    monkeypatch.setattr("visir.cli.main.applications", lambda: (*applications(), theirs))
    with pytest.warns(UserWarning) as told:
        verbs = all_verbs()
    names = [name for name, entry in verbs.items() if entry.group == "measure"]
    assert names[:3] == ["evaluate", "mine", "compare"] and verbs["search"].target == "json:loads"
    assert verbs["compare"].target.startswith("visir.") and not {"lost", "astray"} & verbs.keys()
    reasons = [str(item.message) for item in told]
    for said in ("there is a verb of this name", "ModuleNotFoundError", "unknown group 'nowhere'"):
        assert sum(said in reason for reason in reasons) == 1, reasons


def visir(*command: str, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "visir", *command], cwd=at, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"OMP_WAIT_POLICY": "active"}, "None")])
def test_threads_that_wait_leave_the_cores_to_others(given: dict[str, str], expected: str) -> None:
    program = (
        "import os, sys; sys.argv = ['visir', '--version']\n"
        "from visir.cli.start import run\n"
        "try: run()\nexcept SystemExit: print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    without = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    ran = subprocess.run([sys.executable, "-c", program], env=without | given, capture_output=True, text=True)
    assert ran.stdout.split()[-1] == expected, ran.stderr
