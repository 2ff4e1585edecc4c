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
