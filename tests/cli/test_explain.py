"""`visir explain`: the reading of a result, and of the brittleness paper's logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manifests import write_json
from verbs import say
from visir.cli.evaluate import evaluate
from visir.cli.explain import explain
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
    rows = [{"system": "theirs", **values}]
    write_json(paper, {"title": "T", "source": "S", "decimals": 1, "doubtful": doubts, "rows": rows})
    short = say(explain, usual, "--published", paper)
    assert short.status == 0, short.text
    assert "first caption of each image only: the run goes 10 deep" in short.text
    (printed,) = (line.split() for line in short.text.splitlines() if line.strip().startswith("i2t R-P"))
    assert printed[2] == "0.34", "with its own decimals, two, not those of the table"
    assert "doubtful in print, i2t R-P: A fraction among percentages." in short.text
    anew = say(explain, usual, "--published", paper, "--data", scenes, "--model", f"npz:{vectors}")
    assert "→ hit (any positive in the top k); first caption of each image only" in anew.text
    assert "reproduces 6 of 7 published values of theirs" in anew.text
    other = say(explain, usual, "--published", paper, "--data", "scenes:10", "--model", f"npz:{vectors}")
    assert "is not the collection of this result" in other.text
    assert "both are needed" in say(explain, usual, "--published", paper, "--model", "bow").text


def test_table_3(data_dir: Path) -> None:
    runs = data_dir / "brittleness-runs"
    said = say(explain, runs / "f30k" / "clip" / "i2t" / "none.parquet", "--published", "brittleness-table-3")
    assert "→ capped_recall (hits / min(k, positives)), over all 5,000 captions reproduces 5 of 5" in said.text
    said = say(explain, runs / "f30k" / "align" / "t2i" / "none.parquet", "--published", "brittleness-table-3")
    assert "→ hit (any positive in the top k), over all 31,783 images reproduces 5 of 5" in said.text
    assert "(1 truncated, not rounded)" in said.text
