"""`visir classify` from folders to tables, reports and labels."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import visir
from class_toys import class_folder, colour_model, picture
from verbs import say
from visir.cli.classify import classify


@pytest.fixture(autouse=True)
def _model_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb takes names; "colours" is the toy here."""
    load = visir.load

    def loaded(name: str, **options: object) -> visir.Encoder:
        return colour_model() if name == "colours" else load(name, **options)

    monkeypatch.setattr("visir.evaluation.classification.class_names.load", loaded)


def test_accuracies_are_printed_and_written(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    place, out = class_folder(tmp_path / "colours", train=3, test=2), tmp_path / "out"
    command = (classify, place, "-m", "colours", "--shots", "1,2", "--draws", "2", "--out", out)
    shown = say(*command)
    assert shown.status == 0, shown.text
    for part in ("top-1", "mean per class", "tip-adapter-f", "Chance 33.3 %", "most often taken for", "Student's t"):
        assert part in shown.text
    page = (out / "classification.html").read_text()
    assert "What more pictures give" in page and "Confusion matrix" in page
    again = say(*command)
    assert again.status == 2 and "--replace" in again.text
    assert say(*command, "--replace").status == 0


def test_json_and_faults(tmp_path: Path) -> None:
    place = class_folder(tmp_path / "colours", train=1, test=2)
    shown = say(classify, place, "-m", "colours", "-t", "a {}.", "-t", "the {}.", "--json")
    assert [row["method"] for row in shown.json["accuracies"]] == ["zero-shot, plain", "zero-shot"]
    assert shown.json["protocol"]["prompts"].startswith("2 templates")
    wrong = say(classify, place, "-m", "colours", "-t", "a photo")
    assert wrong.status == 2 and "neither a template nor a file of templates" in wrong.text
    wrong = say(classify, place, "-m", "colours", "--classes", "red,green,blu", "--truth", "folder")
    assert wrong.status == 2 and "no class is called 'blu'; no name for 'blue'" in wrong.text


def test_labels_are_a_csv_that_overwrites_nothing(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, colour in enumerate(("red", "blue")):
        picture(colour, number, 5).save(photos / f"{number}.png")
    shown = say(classify, photos, "-m", "colours", "--classes", "red,green,blue")
    rows = list(csv.DictReader(io.StringIO(shown.text)))
    assert [(row["id"], row["class"]) for row in rows] == [("0.png", "red"), ("1.png", "blue")]
    out = tmp_path / "labels.csv"
    shown = say(classify, photos, "-m", "colours", "--classes", "red,green,blue", "--out", out)
    assert shown.status == 0 and "labels of 2 pictures" in shown.text and out.read_text().count("\n") == 3
    again = say(classify, photos, "-m", "colours", "--classes", "red,green", "--out", out)
    assert again.status == 2 and "exists already" in again.text
    shown = say(classify, photos, "-m", "colours", "--classes", "red,blue", "--json")
    assert [row["class"] for row in shown.json] == ["red", "blue"]
