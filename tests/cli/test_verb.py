"""A verb from a function: types, defaults and texts of its file, and only what was given is passed on."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from visir.cli import verbs as mechanism
from visir.cli.options import OPTIONS, argument, option
from visir.cli.verbs import Call, calls, parameters_of
from visir.cli.verbs import verb as as_verb
from visir.errors import VisirError
from visir.reports import StudyReport

_MODULE = '''"""A module."""


def measure(source: Any, k: int = 10, *, names: Sequence[str] | None = None, exact: bool = False,
            share: float | None = None, **more: Any) -> int:
    """Measure.

    Args:
        source: What is measured. And more of it.
        k: How many `answers`.
        names: Some
            of them.
    """
    return 1
'''


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "measured_here.py").write_text(_MODULE.replace("Any", "object").replace("Sequence", "list"))
    monkeypatch.setattr(mechanism, "_ROOT", tmp_path)
    parameters_of.cache_clear()
    return "visir.measured_here:measure"


def test_the_file_says_what_a_parameter_is(target: str) -> None:
    known = parameters_of(target)
    assert [item.about for item in known.values()] == [
        "What is measured.",
        "How many answers.",
        "Some of them.",
        "",
        "",
    ]
    assert known["source"].default is ... and known["k"].default == 10
    assert known["k"].is_positional and not known["names"].is_positional
    assert "measured_here" not in sys.modules


def test_what_the_command_line_does_not_say_comes_from_the_function(target: str) -> None:
    @calls(target, source=option(to="place"), leave="k", also="workers")
    def measured(call: Call) -> None:
        """Measure.

        Args:
            share: A share. Of all.
        """

    parameters = inspect.signature(as_verb(measured)).parameters
    assert [*parameters] == ["place", "names", "exact", "share", "workers", "as_json", "quiet"]
    types = {name: item.annotation.__origin__ for name, item in parameters.items()}
    assert types["names"] == list[str] | None and types["exact"] is bool and types["share"] == float | None
    shown = {name: item.annotation.__metadata__[0] for name, item in parameters.items()}
    assert shown["names"].help == "Some of them." and shown["share"].help == "A share. Of all."
    assert shown["exact"].default == "--exact" and shown["workers"].help == OPTIONS["workers"].about


def test_what_a_verb_says_of_an_option_goes_before_the_shared_table(target: str) -> None:
    @calls(target, k=option(min=5, kind=float))
    def measured(call: Call) -> None:
        """Measure."""

    annotation = inspect.signature(as_verb(measured)).parameters["k"].annotation
    shown = annotation.__metadata__[0]
    assert annotation.__origin__ is float and shown.min == 5 and OPTIONS["k"].more["min"] == 1
    assert shown.default == "-k" and shown.help == OPTIONS["k"].about  # the rest is the table's


def test_a_verb_says_its_options_in_its_signature_and_its_docstring() -> None:
    def verb(
        place: Annotated[str, argument("PLACE")], k: int = 10, device: str | None = None, fast: bool = False
    ) -> None:
        """Do it.

        More of it.

        Args:
            place: Where.
            k: How many of
                them.
            fast: Sooner.
        """

    verb.__module__ = "visir.cli.measured"
    made = as_verb(verb)
    assert made.__doc__ == "Do it.\n\nMore of it."
    shown = {name: item.annotation.__metadata__[0] for name, item in inspect.signature(made).parameters.items()}
    assert shown["place"].help == "Where." and shown["place"].metavar == "PLACE"
    assert shown["k"].default == "-k" and shown["k"].help == "How many of them." and shown["k"].min == 1
    assert shown["device"].help == OPTIONS["device"].about and shown["fast"].default == "--fast"
    verb.__module__ = "elsewhere"
    assert inspect.signature(as_verb(verb)).parameters["k"].annotation is int


def test_a_word_for_no_parameter_is_refused(target: str) -> None:
    with pytest.raises(AssertionError, match="has no nothing"):
        as_verb(calls(target, nothing=option("--text"))(lambda call: None))


def test_only_what_is_asked_for_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    target = "visir.evaluation.truncation_cost:truncation"
    given = {"source": "a", "model": "b", "split": None, "batch_size": None}
    noted: list[object] = []
    monkeypatch.setattr("visir.evaluation.truncation_cost.truncation", lambda *a, **b: noted.append((a, b)))
    Call(target, given, frozenset({"batch_size"}))(split="test")
    Call(target, given, frozenset({"batch_size"}))("source", model="c")
    assert noted == [(("a", "b"), {"split": "test"}), (("a", "c"), {})]


def called(function: Callable[..., Any], *args: str) -> Result:
    """What a function as the verb of a plugin does with words of a command line."""
    return CliRunner().invoke(mechanism.group("plugin", "About.", {"verb": function}), ["verb", *args])


def test_a_report_function_gets_its_own_defaults_and_types() -> None:
    got: list[dict[str, Any]] = []

    def study(
        place: str, *rest: str, n: int | None = None, cut: tuple[int, ...] = (1, 2), by: int | str = 3,
        at: Sequence[int] = (5,), how: str = "", **more: Any,
    ) -> StudyReport:  # fmt: skip
        got.append({"n": n, "cut": cut, "by": by, "at": at, "how": how})
        return StudyReport.of_parts("note", place, ["Said."])

    assert called(study, "--help").exit_code == 0  # it has no docstring
    assert called(study, "here").exit_code == 0 and called(study, "here", "--n", "4", "--at", "7").exit_code == 0
    own = {"n": None, "cut": (1, 2), "by": 3, "at": (5,), "how": ""}
    assert got == [own, own | {"n": 4, "at": [7]}]


def test_a_report_function_that_is_none_is_refused_in_words() -> None:
    def other() -> StudyReport:
        return 5  # type: ignore[return-value]

    def taken(out: str) -> StudyReport:
        return StudyReport.of_parts("note", out, ["Said."])

    with pytest.raises(VisirError, match="returned no StudyReport"):
        raise called(other).exception or AssertionError
    with pytest.raises(VisirError, match="'out'"):
        raise called(taken, "here").exception or AssertionError
