"""A function that returns a report is a verb: its parameters, whatever their types, are options and arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from refusals import refused
from visir.cli.verbs import VerbCommand, verb
from visir.errors import VisirError
from visir.reports import Column, Section, StudyReport, Table


def report(**values: Any) -> StudyReport:
    rows = [[name, repr(value)] for name, value in values.items()]
    return StudyReport("note", "note", [Section("a", "A", [Table.of([Column("name"), Column("value")], rows)])])


def called(function: Any, *words: str) -> dict[str, str]:
    """What the function was called with, by the command line."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("study", cls=VerbCommand)(verb(function))
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return {row["name"]: row["value"] for row in json.loads(done.stdout)["tables"][0]["rows"]}


def test_parameters_of_any_type_reach_the_function_as_it_says() -> None:
    def study(
        source: Any,
        sizes: list[int] = [1, 2],  # noqa: B006
        pair: tuple[float, float] = (0.5, 1.5),
        side: Literal["left", "right"] = "left",
        place: Path | None = None,
        is_on: bool = True,
        *further: str,
        name: str = "n",
        **options: Any,
    ) -> StudyReport:
        """Say what was given."""
        return report(source=source, sizes=sizes, pair=pair, side=side, place=place, is_on=is_on, name=name)

    plain = called(study, "here")
    assert plain == {
        "source": "'here'", "sizes": "[1, 2]", "pair": "(0.5, 1.5)", "side": "'left'", "place": "None",
        "is_on": "True", "name": "'n'",
    }  # fmt: skip
    given = called(study, "here", "--sizes", "3", "--sizes", "4", "--no-is-on", "--place", "x", "--name", "m")
    assert (given["sizes"], given["is_on"], given["name"]) == ("[3, 4]", "False", "'m'")
    assert given["place"].endswith("Path('x')")


def test_a_function_without_words_and_what_is_no_report() -> None:
    def silent(k: int = 1) -> StudyReport:
        return report(k=k)

    assert called(silent, "-k", "3") == {"k": "3"}
    app = typer.Typer()
    app.command("study", cls=VerbCommand)(verb(silent))
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0

    def wrong(k: int = 1) -> StudyReport:
        """Say nothing."""
        return 3  # type: ignore[return-value]

    with refused(VisirError, "wrong", "int", hint=False):
        called(wrong)


@pytest.mark.parametrize("name", ["out", "replace", "latex", "quiet"])
def test_a_parameter_that_every_verb_has_is_refused(name: str) -> None:
    space: dict[str, Any] = {"StudyReport": StudyReport}
    exec(f"def study({name}: str = '') -> StudyReport: ...", space)
    with refused(VisirError, name, hint="otherwise"):
        verb(space["study"])
