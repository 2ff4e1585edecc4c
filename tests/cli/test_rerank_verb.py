"""`visir evaluate --rerank` end to end, on generated scenes with a tiny BLIP; and `visir explain` on what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from matching_toys import tiny_blip, tiny_fusion
from verbs import say
from visir.cli.compare import explain
from visir.cli.evaluate import evaluate
from visir.evaluation.measures import measure
from visir.evaluation.results import load, load_evaluation
from visir.retrieval.ranks import ranks_of

SCENES = "scenes:24?size=64"


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blip")
    tiny_blip(folder)
    return folder


def test_a_model_and_its_own_second_stage(blip: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert say(evaluate, SCENES, "--model", blip, "--out", first, "--device", "cpu", "--name", "blip").status == 0
    asked = (SCENES, "--model", blip, "--rerank", blip, "--k-test", 2, "--device", "cpu", "--name", "two stages")
    said = say(evaluate, *asked, "--out", second)
    assert said.status == 0, said.text
    words = " ".join(said.text.split())
    assert "top 2; nothing behind them" in words and ", itm" in words
    assert "pairs scored" in words and "of the time" in words
    assert "every R@k beyond 2 is R@2" in words
    result = load(second)
    for task in ("t2i", "i2t"):
        assert result.mean(task, "hit@5") == result.mean(task, "hit@10")
    assert result.timing["re-rank"] > 0
    report = (second / "report.html").read_text("utf-8")
    assert "pairs scored" in report and "every R@k beyond 2 is R@2" in report
    again = say(evaluate, *asked, "--out", tmp_path / "third")
    assert "0 pairs scored" in " ".join(again.text.split())
    assert load(tmp_path / "third").aggregates == result.aggregates

    values = {one: {f"R@{k}": 100 * result.mean(one, f"hit@{k}") for k in (1, 5, 10)} for one in ("i2t", "t2i")}
    paper = tmp_path / "paper.json"
    paper.write_text(json.dumps({"title": "t", "source": "s", "rows": [{"system": "theirs", **values}]}))
    named = say(explain, first, "--published", paper)
    assert "the published R@5 and R@10 are the same" in named.text and "--k-test 2" in named.text
    refused = say(explain, second, "--published", paper, "--data", SCENES, "--model", blip)
    assert refused.status == 2 and "a new search would leave the second stage out" in refused.text


def test_runs_from_elsewhere_and_the_tail(blip: Path, tmp_path: Path) -> None:
    say(evaluate, SCENES, "--model", blip, "--out", tmp_path / "first", "--device", "cpu")
    run = tmp_path / "first" / "run_t2i.parquet"
    said = say(
        evaluate, SCENES, "--run", run, "--rerank", blip, "--k-test", 5, "--tail", "kept", "--rerank-score", "sum",
        "--device", "cpu", "--out", tmp_path / "second",
    )  # fmt: skip
    assert said.status == 0, said.text
    protocol = load(tmp_path / "second").protocol
    assert protocol.rerank == "top 5; the rest of the first stage behind them"
    assert protocol.matcher == f"{blip}, itm + first stage"


@pytest.mark.parametrize("kind", ["xvlm", "albef"])
def test_the_models_of_the_thesis(kind: str, tmp_path: Path) -> None:
    """Table 2.1's configuration: X-VLM, its own vectors, its own head, k_test 2."""
    name = tiny_fusion(kind, tmp_path / "model")
    asked = ("scenes:12?size=64", "--model", name, "--device", "cpu")
    assert say(evaluate, *asked, "--out", tmp_path / "one").status == 0
    assert say(evaluate, *asked, "--rerank", name, "--k-test", 2, "--out", tmp_path / "two").status == 0
    first, second = load_evaluation(tmp_path / "one"), load(tmp_path / "two")
    for task in ("t2i", "i2t"):
        two = measure(ranks_of(first.runs[task], first.qrels[task]), ["hit@2"])["hit@2"].to_numpy().mean()  # type: ignore[index]
        assert second.mean(task, "hit@5") == second.mean(task, "hit@10") == two
        assert second.mean(task, "hit@5") < load(tmp_path / "one").mean(task, "hit@10")


def test_faults(blip: Path) -> None:
    assert "there is none" in say(evaluate, SCENES, "--model", blip, "--k-test", 2).text
    assert "has no image–text matching head" in say(evaluate, SCENES, "--model", blip, "--rerank", "pixels").text
