"""What all verbs have in common."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from visir.cli.main import app

RUN = CliRunner()


@pytest.mark.parametrize("spelling", ["--force", "--replace"])
def test_a_hint_names_an_option_that_the_verb_knows(tmp_path: Path, spelling: str) -> None:
    generate = ["intent", "generate", "--out", str(tmp_path / "log"), "--sessions", "5"]
    convert = ["data", "convert", "scenes:8", str(tmp_path / "scenes")]
    for command in (generate, convert):
        assert RUN.invoke(app, command).exit_code == 0
        assert "--force" in str(RUN.invoke(app, command).exception)
        assert RUN.invoke(app, [*command, spelling]).exit_code == 0


def test_every_verb_that_replaces_says_force() -> None:
    def options(command: click.Command) -> set[str]:
        own = {name for one in command.params for name in one.opts}
        return own.union(*map(options, getattr(command, "commands", {}).values()))

    assert "--replace" not in options(typer.main.get_command(app))
