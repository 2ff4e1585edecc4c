"""Answers to test splits whose judgements are not published, in the files that the benchmarks take."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from composed_toys import Colours
from typer.testing import CliRunner

import visir
from visir.cli.main import app
from visir.errors import CollectionError, ConfigurationError, EncoderError, ProtocolError, VisirError

sys.path.append(str(Path(__file__).parents[1] / "collections"))
from composed_layouts import circo, cirr

from refusals import refused


def test_circo(tmp_path: Path) -> None:
    submission = visir.submit(circo(tmp_path, 60), Colours(), tmp_path / "answers.json", compose="sum(0.5)")
    assert submission.files == (tmp_path / "answers.json",)
    content = json.loads((tmp_path / "answers.json").read_text())
    assert list(content) == ["0"]
    assert len(content["0"]) == 50
    assert all(isinstance(image, int) for image in content["0"])
    # The picture is white-magenta-…; with "red": what stands first is what visir.evaluate would put first.
    assert content["0"] == [int(image) for image in submission.runs["it2i"].top("test-0", 50)]
    assert repr(submission).splitlines()[0] == "Submission(CIRCO, colours?compose=sum(0.5))"
    assert submission.where == "https://circo.micc.unifi.it/"


def test_circo_on_val_in_the_same_form(tmp_path: Path) -> None:
    visir.submit(circo(tmp_path, 60), Colours(), tmp_path / "val.json", split="val", compose="image")
    assert list(json.loads((tmp_path / "val.json").read_text())) == ["0"]


def test_cirr_has_two_files(tmp_path: Path) -> None:
    submission = visir.submit(cirr(tmp_path, 60), Colours(), tmp_path / "answers.json", compose="image")
    assert [file.name for file in submission.files] == ["answers-recall.json", "answers-recall_subset.json"]
    recall, subset = (json.loads(file.read_text()) for file in submission.files)
    assert (recall["version"], recall["metric"], len(recall["9"])) == ("rc2", "recall", 50)
    assert (subset["version"], subset["metric"], len(subset["9"])) == ("rc2", "recall_subset", 3)
    assert "test1-0" not in recall["9"]  # the picture of the query
    assert set(subset["9"]) < {f"test1-{number}" for number in range(1, 6)}


def test_the_command(tmp_path: Path) -> None:
    folder = cirr(tmp_path, 60)
    result = CliRunner().invoke(
        app, ["submit", str(folder), "--model", "pixels", "--compose", "image", "--out", f"{tmp_path}/a.json"]
    )
    assert result.exit_code == 0, result.output
    assert f"written: {tmp_path}/a-recall.json" in result.output
    assert "hand in: https://cirr.cecs.anu.edu.au/" in result.output


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("mine")
    with refused(VisirError, "answers.json"):
        visir.submit(circo(tmp_path, 60), Colours(), tmp_path / "answers.json", compose="image")
    assert (tmp_path / "answers.json").read_text() == "mine"


def test_too_few_answers(tmp_path: Path) -> None:
    with refused(ProtocolError, "CIRCO", "50", "it2i", "1 query", code="takes-answers-each-query"):
        visir.submit(circo(tmp_path), Colours(), tmp_path / "answers.json", compose="image")
    assert not (tmp_path / "answers.json").exists()


def test_what_cannot_be_submitted(tmp_path: Path) -> None:
    with refused(ConfigurationError, "scenes", code="no-form-submissions"):
        visir.submit("scenes:12?size=64", "pixels", tmp_path / "a.json")
    with refused(EncoderError, "colours", "texts with images", code="encodes-no"):
        visir.submit(circo(tmp_path, 60), Colours(), tmp_path / "a.json")


def test_a_split_without_judgements_is_not_measured(tmp_path: Path) -> None:
    with refused(CollectionError, code="no-judgements-task-nothing") as caught:
        visir.evaluate(circo(tmp_path), Colours(), split="test", compose="image")
    assert "visir submit" in str(caught.value)
