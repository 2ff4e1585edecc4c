"""Run one verb as the command line would, faults printed and exit status 2 included."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from typer.testing import CliRunner

from visir.cli.verbs import verb as verb_of
from visir.errors import VisirError


@dataclass(frozen=True)
class Said:
    status: int
    text: str

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.text)


def say(verb: Callable[..., None], *arguments: object) -> Said:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(verb_of(verb))
    return say_in(app, *arguments)


def say_in(app: typer.Typer, *arguments: object, **environment: str) -> Said:
    """The same in a group of verbs; the first argument names the verb."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200", **environment})
    if isinstance(result.exception, VisirError):
        return Said(2, result.output + str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.output)
