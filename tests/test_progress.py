"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

import visir.progress
from visir.progress import Progress, pace, quiet


def test_a_log_gets_a_line_with_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 10.0, 40.0])  # begun; too early to speak; time to speak
    monkeypatch.setattr(visir.progress.time, "monotonic", lambda: next(clock))
    with Progress("encoding", 400, "images") as advance:
        advance(50)
        advance(50)
    # 100 in 40 s is 2.5 a second (printed 2); the other 300 take 120 s
    assert capsys.readouterr().err == "encoding: 100 of 400 images, 2 a second, 120 s left\n"


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("sorting", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_without_a_total_there_is_no_time_left() -> None:
    progress = Progress("reading", None, "lines")
    progress.done = 1200
    assert progress.line(2.0) == "reading: 1,200 lines, 600 a second"


def test_rates_leave_out_the_time_of_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 10.0, 3610.0, 3650.0])  # begun; an hour of waiting from 10 s on; 100 images
    monkeypatch.setattr(visir.progress.time, "monotonic", lambda: next(clock))
    with Progress("encoding", None, "images") as advance:
        with advance.waiting():
            advance.say("waiting for others")
        advance(100)
    # 100 in 3650 - 3600 = 50 s
    assert capsys.readouterr().err == "waiting for others\nencoding: 100 images, 2 a second\n"
    monkeypatch.setattr(visir.progress.time, "monotonic", lambda: 0.0)
    with quiet(), Progress("encoding", None, "images") as advance:
        advance.say("waiting for others")
    assert capsys.readouterr().err == ""


def test_slow_work_has_a_rate_too() -> None:
    # 2 in 40 s: 0.05 a second, 3 a minute; 3 in 2 h: 1.5 an hour (printed 2); nothing yet: 0 an hour
    assert [pace(one) for one in (99.4, 1.0, 2 / 40, 3 / 7200, 0.0)] == [
        "99 a second",
        "1 a second",
        "3 a minute",
        "2 an hour",
        "0 an hour",
    ]


def test_answering_a_question_is_no_long_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(visir.progress.time, "monotonic", iter([0.0, 40.0, 0.0, 40.0]).__next__)
    with quiet(), Progress("searching", 3, "scores") as advance:
        advance(3)
    assert capsys.readouterr().err == ""
    with Progress("searching", 3, "scores") as advance:  # and loud again behind it
        monkeypatch.setattr(visir.progress.time, "monotonic", lambda: 80.0)
        advance(3)
    assert "searching: 3 of 3 scores" in capsys.readouterr().err


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What a notebook would show, one after the other, in one place."""
    written: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], *, raw: bool) -> None:
            written.append(bundle)

    def display(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        written.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(visir.progress, "in_notebook", lambda: True)
    return written


def test_a_notebook_has_a_bar_that_goes_when_the_work_is_done(
    monkeypatch: pytest.MonkeyPatch, shown: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    # Begun at 0; 0.4 s is too short for a bar; 2 s is not; 2.1 s is too soon to move it; done at 3 s.
    monkeypatch.setattr(visir.progress.time, "monotonic", iter([0.0, 0.4, 2.0, 2.1, 3.0]).__next__)
    with Progress("encoding <b>", 400, "images") as advance:
        for _ in range(3):
            advance(50)
    assert [bundle["text/plain"] for bundle in shown] == [
        "encoding <b>: 100 of 400 images, 50 a second, 6 s left",
        "",
    ]
    assert 'value="100" max="400"' in shown[0]["text/html"]
    assert "&lt;b&gt;" in shown[0]["text/html"] and "<b>" not in shown[0]["text/html"]
    assert capsys.readouterr().err == ""


def test_work_that_is_stopped_leaves_a_line(monkeypatch: pytest.MonkeyPatch, shown: list[dict[str, str]]) -> None:
    monkeypatch.setattr(visir.progress.time, "monotonic", iter([0.0, 2.0, 4.0]).__next__)
    with pytest.raises(KeyboardInterrupt), Progress("reading", None, "lines") as advance:
        advance(8)
        raise KeyboardInterrupt
    assert "<progress  style" in shown[0]["text/html"], "without a total the bar only moves"
    assert shown[-1]["text/plain"] == "reading: 8 lines, 2 a second (stopped)"


def test_quiet_holds_in_notebooks_too(monkeypatch: pytest.MonkeyPatch, shown: list[dict[str, str]]) -> None:
    monkeypatch.setattr(visir.progress.time, "monotonic", iter(range(100)).__next__)
    with quiet(), Progress("searching", 3) as advance:
        advance(1)
    monkeypatch.setenv("VISIR_QUIET", "1")
    with Progress("searching", 3) as advance:
        advance(1)
    assert shown == []
