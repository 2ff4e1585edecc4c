"""`visir compare`: results beside one another and beside published values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import visir
from manifests import write_json
from verbs import say
from visir.cli.compare import compare
from visir.evaluation.evaluate import evaluate
from visir.evaluation.results import load, save
from visir.records import Collection, Embeddings, EncoderCard

IDS = [f"i{at}" for at in range(40)]
COLLECTION = Collection.build(
    "toy",
    images={"id": IDS},
    captions={
        "id": [f"{one}#{n}" for one in IDS for n in range(2)],
        "text": ["words"] * 80,
        "image_id": [one for one in IDS for _ in range(2)],
    },
)


def result(folder: Path, name: str, noise: float, **options: object) -> Path:
    rng = np.random.default_rng(7)
    images = rng.normal(size=(40, 16))
    texts = np.repeat(images, 2, axis=0) + noise * rng.normal(size=(80, 16))
    card = EncoderCard(name, "imported")
    pair = (
        Embeddings("image", IDS, images.astype(np.float32), card),  # type: ignore[arg-type]
        Embeddings("text", COLLECTION.captions["id"], texts.astype(np.float32), card),  # type: ignore[arg-type]
    )
    return save(evaluate(COLLECTION, pair, **options), folder / name)  # type: ignore[arg-type]


RANDOMISED = ("--test", "randomisation", "--correction", "bonferroni")


@pytest.mark.parametrize("flags", [(), RANDOMISED, ("--unit", "image"), ("--unit", "caption")])
def test_two_results(tmp_path: Path, flags: tuple[str, ...]) -> None:
    said = say(compare, result(tmp_path, "poor", 4.0), result(tmp_path, "good", 0.5), *flags)
    assert said.status == 0, said.text
    for part in ("good against poor", "R@10", "rsum", "95 % interval", "mean_rank"):
        assert part in said.text
    text = " ".join(said.text.split())
    assert ("images, captions of one image together" in text) == ("caption" not in flags)
    assert ("captions of one image are taken for independent, as asked for" in text) == ("caption" in flags)
    assert ("randomisation test (seed 0)" in said.text) == ("randomisation" in flags)


def test_what_would_be_left_unused_is_refused_at_the_door() -> None:
    for flags, place in (
        (("--published", "thesis-table-2-1", "--tolerance", "-1"), "--tolerance -1"),
        (("--published", "thesis-table-2-1", "--tolerance", "nan"), "--tolerance nan"),
        (("--as", "CLIP"), "--as: "),
        (("--as", "CLIP", "--on", "Flickr30k", "--tolerance", "inf"), "--as and --on: "),
        (("--published", "thesis-table-2-1", "--as", "a", "--as", "b", "--qrels", "q"), "2 --as for 1 results"),
    ):
        answer = say(compare, "nowhere", *flags)
        assert answer.status == 2 and place in answer.text, answer.text
        assert answer.text.count("\n  - ") == (2 if len(flags) > 5 else 1), answer.text


def test_unlike_protocols_are_refused(tmp_path: Path) -> None:
    usual, other = result(tmp_path, "a", 1.0), result(tmp_path, "b", 1.0, recall="capped_recall")
    said = say(compare, usual, other)
    assert said.status == 2
    assert "recall: 'hit' | 'capped_recall'" in said.text
    assert "--allow recall" in said.text
    allowed = say(compare, usual, other, "--allow", "recall", "--measure", "hit@1")
    assert allowed.status == 0
    assert "allowed to differ, recall" in allowed.text


def test_published_values_and_the_order_of_systems(tmp_path: Path) -> None:
    file = tmp_path / "paper.json"
    rows = [{"system": name, "t2i": {"R@1": value}} for name, value in (("good", 20.0), ("poor", 60.0))]
    write_json(file, {"title": "A table", "source": "A paper", "rows": rows})
    folders = [result(tmp_path, "good", 0.5), result(tmp_path, "poor", 4.0)]
    said = say(compare, *folders, "--published", file, "--out", tmp_path / "report")
    captions = [table.caption for table in visir.open(tmp_path / "report").tables]
    assert "good beside the published values" in captions and "poor against good" in captions
    assert "good: 0 of 1 values within ±5 %, 0 to the printed digits (R@k read as hit@k)" in said.text
    assert "order of systems, text → image R@1: not kept: poor should be above good" in said.text
    assert "good against" not in said.text
    assert "poor against good" in said.text
    alone = say(compare, folders[0], "--published", file, "--as", "poor", "--tolerance", "9")
    assert "1 of 1 values within ±900 %" in alone.text
    assert "did you mean 'poor'" in say(compare, folders[0], "--published", file, "--as", "por").text


def test_doubtful_values_are_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "paper.json"
    row = {"system": "good", "t2i": {"R@1": 20.0, "R@5": 21.0}}
    doubts = [{"label": "R@5", "reason": "It says so itself."}]
    write_json(file, {"title": "A table", "source": "A paper", "doubtful": doubts, "rows": [row]})
    said = say(compare, result(tmp_path, "good", 0.5), "--published", file)
    assert "doubtful in print, text → image R@5: It says so itself." in said.text
    assert "R@1:" not in said.text


def test_faults(tmp_path: Path) -> None:
    bare = save(replace(load(result(tmp_path, "full", 1.0)), captions=None), tmp_path / "bare")
    assert "of 80 of 80 captions the image is not known" in say(compare, bare, bare, "--unit", "image").text
    assert "the results do not say which image a caption" in " ".join(say(compare, bare, bare).text.split())
    assert "no result.json in it" in say(compare, tmp_path, tmp_path).text
    assert "at least two results" in say(compare, result(tmp_path, "a", 1.0)).text


def test_a_published_row_that_ends_early_is_said_to(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    row = {"system": "good", "t2i": {"R@1": 37.82, "R@5": 82.36, "R@10": 82.48}}
    write_json(file, {"title": "A table", "source": "A paper", "rows": [row]})
    said = say(compare, result(tmp_path, "good", 0.5), "--published", file)
    assert "→ good: the published R@5 and R@10 are the same (t2i 82.36 and 82.48)." in said.text
    assert "visir evaluate … --rerank MODEL --k-test 2" in said.text


def test_runs_of_other_tools_with_judgements(tmp_path: Path) -> None:
    """Three queries; a has every positive first, b second: MRR 1 and 1/2, and no spread to test."""
    queries = ("q1", "q2", "q3")
    (tmp_path / "qrels.txt").write_text("".join(f"{query} 0 d1 1\n" for query in queries))
    for name, first, second in (("a", "d1", "d2"), ("b", "d2", "d1")):
        lines = (f"{query} Q0 {first} 1 2.0 {name}\n{query} Q0 {second} 2 1.0 {name}\n" for query in queries)
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    runs = [tmp_path / "a.trec", tmp_path / "b.trec"]
    said = say(compare, *runs, "--qrels", tmp_path / "qrels.txt", "--measure", "MRR")
    assert said.status == 0, said.text
    assert "50.0" in said.text and "b" in said.text

    unit = say(compare, *runs, "--qrels", tmp_path / "qrels.txt", "--unit", "imag")
    assert unit.status and "unknown unit 'imag'" in unit.text
    field = say(compare, *runs, "--qrels", tmp_path / "qrels.txt", "--allow", "deepth")
    assert field.status and "unknown protocol field 'deepth'" in field.text
    table = say(compare, *runs, "--qrels", tmp_path / "qrels.txt", "--published", "thesis-table-2-1")
    assert table.status and "--published is for results" in table.text
    assert "runs need judgements" in say(compare, *runs).text
    twice = say(compare, runs[0], runs[0], "--qrels", tmp_path / "qrels.txt")
    assert twice.status == 0 and "a.trec (2) against a.trec (1)" in twice.text, twice.text
    days = [tmp_path / day / "a.trec" for day in ("monday", "tuesday")]
    for path in days:
        path.parent.mkdir()
        path.write_bytes(runs[0].read_bytes())
    apart = say(compare, *days, "--qrels", tmp_path / "qrels.txt")
    assert "tuesday/a.trec against monday/a.trec" in apart.text, apart.text
