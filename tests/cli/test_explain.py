"""`visir explain`: the reading of a result, and of the brittleness paper's logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import visir
from manifests import write_json
from verbs import say
from visir.cli.compare import explain
from visir.cli.evaluate import evaluate
from visir.evaluation.results import load


def test_a_result_is_explained(tmp_path: Path) -> None:
    scenes = "scenes:20?size=64"
    rng = np.random.default_rng(1)
    images = rng.normal(size=(20, 16)).astype(np.float32)
    texts = (np.repeat(images, 5, axis=0) + 2 * rng.normal(size=(100, 16))).astype(np.float32)
    vectors = tmp_path / "vectors.npz"
    np.savez(vectors, image=images, text=texts)
    planted, usual = tmp_path / "planted", tmp_path / "usual"
    say(evaluate, scenes, "--embeddings", vectors, "--captions", "first", "--out", planted)
    made = say(evaluate, scenes, "--embeddings", vectors, "--depth", "10", "--out", usual)
    assert made.status == 0, made.text
    values = {
        one: {f"R@{k}": round(100 * load(planted).mean(one, f"hit@{k}"), 2) for k in (1, 5, 10)}
        for one in ("i2t", "t2i")
    }
    values["i2t"]["R-P"] = 0.34
    paper = tmp_path / "paper.json"
    doubts = [{"label": "R-P", "reason": "A fraction among percentages."}]
    theirs = [{"system": "theirs", **values}]
    write_json(paper, {"title": "T", "source": "S", "decimals": 1, "doubtful": doubts, "rows": theirs})
    short = say(explain, usual, "--published", paper)
    assert short.status == 0, short.text
    assert "further readings" in short.text and "Not computable" not in short.text
    whole = say(explain, usual, "--published", paper, "--all")
    assert "the first caption of each image only" in whole.text and "the run goes 10 deep" in whole.text
    assert "Not computable" in whole.text
    assert sum(bool(line.strip()) for line in short.text.splitlines()) <= 12 < len(whole.text.splitlines())
    lines = [line.split() for line in short.text.splitlines() if line.strip()]
    head, printed, first = (next(line for line in lines if line[0] == name) for name in ("i2t", "published", "[1]"))
    places = {" ".join(head[at : at + 2]): at // 2 + 1 for at in range(0, len(head), 2)}
    assert printed[places["i2t R-P"]] == "0.34", "with its own decimals, two, not those of the table"
    assert printed[places["t2i R@1"]] == f"{values['t2i']['R@1']:.1f}"
    assert any(cell.endswith("*") for cell in first[1:])
    written = say(explain, usual, "--published", paper, "--latex", tmp_path / "t.tex", "--limit", "2")
    assert written.status == 0 and written.text.count("[3]") == 0
    assert "\\toprule" in (tmp_path / "t.tex").read_text() and "R-P" in (tmp_path / "t.tex").read_text()
    assert "doubtful in print, image → text R-P: A fraction among percentages." in short.text
    anew = say(explain, usual, "--published", paper, "--data", scenes, "--model", f"npz:{vectors}")
    assert anew.status == 0, anew.text
    assert "the nearest is the first caption of each image only" in anew.text and "with 6 of 7" in anew.text
    one = say(explain, usual, "--published", paper, "--data", scenes, "--model", f"npz:{vectors}", "--direction", "t2i")
    assert "→ the first caption of each image only, over all 20 images reproduces 3 of 3" in " ".join(one.text.split())
    assert "the result has no 't2t'" in say(explain, usual, "--published", paper, "--direction", "t2t").text
    searched = ("--data", scenes, "--model", f"npz:{vectors}")
    assert "there is no split 'trian'" in say(explain, usual, "--published", paper, *searched, "--also", "trian").text
    assert "are both needed" in say(explain, usual, "--published", paper, "--also", "val").text
    assert say(explain, usual, "--published", paper, *searched, "--also", "all").status == 0
    in_python = visir.explain(usual, paper, source=scenes, model=f"npz:{vectors}")
    assert in_python.sentence in anew.text and in_python.decimals == 1
    other = say(explain, usual, "--published", paper, "--data", "scenes:10", "--model", f"npz:{vectors}")
    assert "is not the collection of this result" in other.text
    assert "are both needed" in say(explain, usual, "--published", paper, "--model", "bow").text


def test_table_3(data_dir: Path) -> None:
    runs = data_dir / "brittleness-runs"
    said = say(explain, runs / "f30k" / "clip" / "i2t" / "none.parquet", "--published", "brittleness-table-3")
    assert "over all 5,000 captions reproduces 5 of 5" in said.text
    said = say(explain, runs / "f30k" / "align" / "t2i" / "none.parquet", "--published", "brittleness-table-3")
    assert "→ further digits cut off, not rounded, over all 31,783 images reproduces 5 of 5" in said.text
    assert "(1 truncated, not rounded)" in said.text


def test_a_perturbed_log_is_explained(data_dir: Path) -> None:
    """Thesis Table 5.3 prints rsum under each perturbation, with the mean DCG added."""
    log = data_dir / "brittleness-runs" / "f30k" / "clip" / "t2i" / "shuffle_all_words.parquet"
    said = say(explain, log, "--published", "thesis-table-5-3")
    assert said.status == 0, said.text
    assert "rsum is the sum of the recalls and the mean DCG" in " ".join(said.text.split())
    said = say(explain, log.with_name("synonym_adj.parquet"), "--published", "thesis-table-5-3")
    assert "no value is printed under synonym_adj" in said.text


def test_candidates_of_the_whole_collection(tmp_path: Path) -> None:
    """A result of a split over the whole collection is explained by the split's own candidates."""
    scenes = "scenes:60?size=64"
    rng = np.random.default_rng(1)
    images = rng.normal(size=(60, 16)).astype(np.float32)
    texts = (np.repeat(images, 5, axis=0) + 2 * rng.normal(size=(300, 16))).astype(np.float32)
    vectors = tmp_path / "vectors.npz"
    data = visir.open(scenes)
    ids = {"image_ids": data.images["id"].to_pylist(), "text_ids": data.captions["id"].to_pylist()}
    np.savez(vectors, image=images, text=texts, **ids)
    own, other = tmp_path / "own", tmp_path / "other"
    of_test = (scenes, "--embeddings", vectors, "--split", "test")
    assert say(evaluate, *of_test, "--gallery", "collection", "--out", own).status == 0
    assert say(evaluate, *of_test, "--out", other).status == 0
    values = {task: {f"R@{k}": 100 * load(other).mean(task, f"hit@{k}") for k in (1, 5)} for task in ("i2t", "t2i")}
    paper = tmp_path / "paper.json"
    write_json(paper, {"title": "T", "source": "S", "decimals": 2, "rows": [{"system": "theirs", **values}]})
    for more in ((), ("--data", scenes, "--model", f"npz:{vectors}")):
        said = say(explain, own, "--published", paper, *more)
        assert said.status == 0, said.text
        assert "candidates restricted to the images and captions that are judged" in " ".join(said.text.split())


def test_digits_alone_say_how_many_queries_there_were() -> None:
    digits = "t2i R@1=37.82,R@5=82.36,R@10=82.48"
    words = say(explain, "--published", digits, "--on", "Flickr30k", "--stated", "1000")
    assert "Flickr30k text → image: 5,000 queries (Flickr30k test, all captions; by accident 13 %) can" in words.text
    assert len(words.text.splitlines()) <= 12
    [row] = json.loads(say(explain, "--published", digits, "--on", "Flickr30k", "--json").text)["rows"]
    assert row["possible"]["5000"] == "rounded" and "1000" in row["impossible"]


def test_what_digits_alone_do_not_use_is_refused() -> None:
    text = say(explain, "--direction", "t2i", "--model", "pixels").text
    assert all(name in text for name in ("3 faults", "--published", "--direction", "--model"))
