"""A verb from a function: types, defaults and texts of its file, and only what was given is passed on."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import pytest

from visir.cli import verbs as mechanism
from visir.cli.options import OPTIONS, argument, option
from visir.cli.verbs import Call, calls, parameters_of
from visir.cli.verbs import verb as as_verb

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
