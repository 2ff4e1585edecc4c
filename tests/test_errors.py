"""Errors in notebooks: the caller's line, the fault and the next action, without a traceback through visir."""

from __future__ import annotations

import pytest

import visir
from visir.errors import VisirError


def test_a_notebook_shows_the_callers_line_and_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISIR_TRACEBACK", raising=False)
    with pytest.raises(VisirError) as raised:
        visir.load("no such model")
    place, text = raised.value._render_traceback_()
    assert place.startswith("test_errors.py, line ") and place.endswith(': visir.load("no such model")')
    assert text.startswith("\x1b[31mEncoderError\x1b[39m: unknown encoder 'no such model'")
    assert "→" in text and "Traceback" not in text


def test_what_others_wrote_commands_no_terminal() -> None:
    fault = VisirError("id '\x1b]0;owned\x07'", hint="mend it")
    assert fault._render_traceback_() == ["\x1b[31mVisirError\x1b[39m: id '\\u001b]0;owned\\u0007'\n  → mend it"]


def test_the_traceback_is_there_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_TRACEBACK", "1")
    with pytest.raises(VisirError) as raised:
        visir.load("no such model")
    assert "Traceback (most recent call last)" in "".join(raised.value._render_traceback_())
