"""`visir profile` end to end: a table, one page, JSON; a stranger's files stay as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from verbs import say
from visir.cli.evaluate import profile

SMALL = ("--scenes", "12", "--no-at-hand", "--tasks", "scenes/choice,scenes/de,scenes/paraphrase-text")


def content(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_table_and_a_page_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    sentinels = ("profile.css", "profile.json", "page.html", "notes/profile.html")
    for name in sentinels:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("a stranger's file")
    before = content(place)
    monkeypatch.chdir(place)
    shown = say(profile, "bow", *SMALL, "--out", "profile.html")
    assert shown.status == 0, shown.text
    assert "scenes/paraphrase-text" in shown.text and "bow:4096 reads no images" in shown.text
    assert "page: profile.html" in shown.text
    after = content(place)
    page = after.pop("profile.html").decode()
    assert after == before
    for part in (
        "What bow:4096 can do",
        "At a glance",
        "Not measured",
        "Protocol of scenes/paraphrase-text",
        "colours",
    ):
        assert part in page
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page) == []  # one file: it needs no other

    again = say(profile, "bow", *SMALL, "--out", "profile.html")
    assert again.status == 0, again.text  # its own page, unchanged, is written again
    Path("profile.html").write_text(page + "a note of mine")
    refused = say(profile, "bow", *SMALL, "--out", "profile.html")
    assert refused.status == 2 and "exists already" in refused.text and "--replace" in refused.text
    refused = say(profile, "bow", *SMALL, "--out", "page.html")
    assert refused.status == 2 and content(place)["page.html"] == before["page.html"]
    assert say(profile, "bow", *SMALL, "--out", "profile.html", "--replace").status == 0


def test_json_has_scores_and_what_is_left_out() -> None:
    values = say(profile, "bow", *SMALL, "--reference", "none", "--json", "--quiet").json
    assert [row["name"] for row in values["scores"]] == ["scenes/paraphrase-text"]
    row = values["scores"][0]
    assert row["chance"] == 0.5 and row["reference"] is None and 0 <= row["score"] <= 1
    assert {row["name"] for row in values["left_out"]} == {"scenes/choice", "scenes/de"}
    assert values["reference"] is None


def test_faults_are_named_before_anything_is_measured(tmp_path: Path) -> None:
    wrong = say(profile, "bow", "--out", tmp_path / "folder")
    assert wrong.status == 2 and "a profile is one page" in wrong.text
    wrong = say(profile, "bow", "--no-at-hand", "--tasks", "robustnes")
    assert wrong.status == 2 and "did you mean 'robustness'" in wrong.text
    wrong = say(profile, "bow", "--no-at-hand", "--data", tmp_path / "nothing.csv")
    assert wrong.status == 2 and "no such file" in wrong.text
