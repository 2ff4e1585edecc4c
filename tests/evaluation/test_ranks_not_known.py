"""What a run of unknown candidates cannot say: ranks beyond its last answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
import ranx
import torch
from evaluation_toys import make_collection

import visir
from visir.evaluation.results import load, read_result
from visir.records import Gallery, Run
from visir.reports import evaluation_report, measures_table, to_markdown
from visir.reports.evaluation import expected_by_chance
from visir.reports.examples import ExampleQueries, first_ranks
from visir.retrieval.formats import write_run
from visir.retrieval.ranks import ranks_of

QUERIES, DEPTH = 30, 10
JUDGED = {f"q{i}": {f"d{i}": 1} for i in range(QUERIES)}


def answers(right: int, place: int) -> dict[str, dict[str, float]]:
    """Ten answers for each query; the first `right` queries have their document at a place from 0."""
    return {
        f"q{i}": {f"d{i}" if i < right and rank == place else f"x{i}-{rank}": 1 - rank / 16 for rank in range(DEPTH)}
        for i in range(QUERIES)
    }


FEW, MANY = answers(2, 0), answers(28, 1)
"""A system that finds 2 of 30, and one that finds 28."""


def _frame(run: dict[str, dict[str, float]], folder: Path) -> Any:
    rows = [(query, document, score) for query, found in run.items() for document, score in found.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def _trec(run: dict[str, dict[str, float]], folder: Path) -> Any:
    lines = [f"{q} Q0 {d} {r} {s} x" for q, found in run.items() for r, (d, s) in enumerate(found.items(), 1)]
    (folder / "run.trec").write_text("\n".join(lines))
    return folder / "run.trec"


def _json(run: dict[str, dict[str, float]], folder: Path) -> Any:
    (folder / "run.json").write_text(json.dumps(run))
    return folder / "run.json"


def _triples(run: dict[str, dict[str, float]], folder: Path) -> Any:
    return [(query, document, score) for query, found in run.items() for document, score in found.items()]


DOORS: dict[str, Callable[[dict[str, dict[str, float]], Path], Any]] = {
    "dictionary": lambda run, folder: run,
    "frame": _frame,
    "arrow": lambda run, folder: visir.read_run(_frame(run, folder)).to_arrow(),
    "trec": _trec,
    "json": _json,
    "triples": _triples,
    "ranx": lambda run, folder: ranx.Run(run),
    "saved": lambda run, folder: _saved(run, folder),
}


def _saved(run: dict[str, dict[str, float]], folder: Path) -> Path:
    write_run(visir.read_run(run), folder / "run.parquet")
    return folder / "run.parquet"


@pytest.mark.parametrize("door", DOORS)
def test_a_query_that_finds_nothing_is_beyond_the_answers(door: str, tmp_path: Path) -> None:
    evaluation = visir.evaluate(JUDGED, DOORS[door](FEW, tmp_path), measures=["mean_rank", "median_rank", "MRR"])
    assert evaluation["mean_rank"] == pytest.approx((2 * 1 + 28 * 11) / 30) and evaluation["median_rank"] == 11
    assert evaluation.result.beyond == {"run": {"mean_rank": 28, "median_rank": 28}}
    assert any("28 of 30 queries have no right answer among the first 10" in note for note in evaluation.notes)
    theirs = pytrec_eval.RelevanceEvaluator(JUDGED, {"recip_rank"}).evaluate(FEW)
    assert evaluation["MRR"] == pytest.approx(np.mean([values["recip_rank"] for values in theirs.values()]))


def test_the_rank_of_a_missing_query_is_not_known_either() -> None:
    partial = {query: found for query, found in MANY.items() if query not in ("q0", "q1")} | {"q2": {}}
    result = visir.evaluate(JUDGED, partial, measures=["mean_rank"]).result
    assert result.beyond == {"run": {"mean_rank": 2 + 3}}
    nothing_right = visir.evaluate({**JUDGED, "q0": {"d0": 0}}, MANY, measures=["mean_rank"]).result
    assert nothing_right.beyond == {"run": {"mean_rank": 2 + 1}}


def test_a_whole_matrix_leaves_no_rank_open() -> None:
    """Scores of PyTorch over all documents: every rank is known."""
    scores = torch.eye(4)[[1, 0, 2, 3]]
    run = visir.read_run((scores, list("abcd"), list("ABCD")))
    result = visir.evaluate({name: {name.upper(): 1} for name in "abcd"}, run, measures=["mean_rank"]).result
    assert result.values("run", "mean_rank").tolist() == [2, 2, 1, 1] and not result.beyond  # ties by id


def test_nothing_beyond_where_every_answer_is_right() -> None:
    result = visir.evaluate(JUDGED, answers(QUERIES, 4), measures=["mean_rank", "median_rank"]).result
    assert result.aggregates == {"run": {"mean_rank": 5, "median_rank": 5}} and not result.beyond
    assert result.last_rank("run", "mean_rank") is None


def test_ranks_that_are_not_known_are_not_tested() -> None:
    comparison = visir.compare({"many": MANY, "few": FEW}, qrels=JUDGED, measures=["mean_rank", "MRR"])
    assert "28 of 30 of few, 2 of 30 of many" in comparison["few", "mean_rank"].untested
    assert np.isnan(comparison["few", "mean_rank"].p) and comparison.family == 1
    assert comparison.verdict("few") == "significantly worse in 1 of 1 measure (corrected p < 0.05)"
    known = visir.compare({"a": answers(QUERIES, 1), "b": answers(QUERIES, 4)}, qrels=JUDGED, measures=["mean_rank"])
    assert not known["b", "mean_rank"].untested


def test_the_count_is_on_the_page_and_in_the_file(tmp_path: Path) -> None:
    evaluation = visir.evaluate(JUDGED, FEW, measures=["mean_rank", "median_rank"])
    table = to_markdown(measures_table(evaluation.result)).replace("\\", "")
    assert "> 10 (28 of 30 beyond 10)" in table
    folder = evaluation.save(tmp_path / "result")
    assert json.loads((folder / "result.json").read_text())["beyond"] == {"run": {"mean_rank": 28, "median_rank": 28}}
    assert load(folder).beyond == evaluation.result.beyond
    middle = visir.evaluate(JUDGED, MANY, measures=["mean_rank", "median_rank"]).result
    table = to_markdown(measures_table(middle)).replace("\\", "")
    assert "2.6 (2 of 30 beyond 10)" in table and "2.0 (2 of 30 beyond 10)" in table


def test_a_result_of_an_older_version_counts_from_its_depth(tmp_path: Path) -> None:
    folder = visir.evaluate(JUDGED, FEW, measures=["mean_rank"]).save(tmp_path / "result")
    content = json.loads((folder / "result.json").read_text())
    del content["beyond"]
    assert read_result(folder, content).beyond == {"run": {"mean_rank": 28}}


def test_a_run_of_a_collection_takes_its_gallery() -> None:
    """A dictionary and a file are the same run: where every image is ranked, no rank is open."""
    collection = make_collection(6, 1)
    images, captions = collection.images["id"].to_pylist(), collection.captions["id"].to_pylist()
    whole = {caption: {image: -float(i) for i, image in enumerate(images)} for caption in captions}
    cut = {caption: dict(list(found.items())[:2]) for caption, found in whole.items()}
    listed = Run.ranked("listed", "t2i", *zip(*[(q, d, s) for q, a in cut.items() for d, s in a.items()], strict=True),
                        Gallery.of("image", images))  # fmt: skip
    full = visir.evaluate(collection, {"t2i": whole}, measures=["mean_rank"])
    assert not full.result.beyond and full["mean_rank"] == 3.5
    half = visir.evaluate(collection, {"t2i": cut}, measures=["mean_rank"])
    same = visir.evaluate(collection, listed, measures=["mean_rank"])
    assert half.aggregates == same.aggregates and half.result.beyond == same.result.beyond == {"t2i": {"mean_rank": 4}}
    assert half.runs["t2i"].gallery.size == 6


def test_an_unknown_gallery_has_no_end(tmp_path: Path) -> None:
    run = visir.read_run(FEW)
    ranks = ranks_of(run, visir.collections.read_qrels(JUDGED))
    assert ranks.gallery_size is None and ranks.depth == 10 and "candidates not known" in repr(ranks)
    assert "0 documents" not in run._repr_html_() and "not known" in run._repr_html_()
    assert not run.gallery.ends_by(10**9)


def test_the_page_draws_no_chance_among_unknown_candidates(tmp_path: Path) -> None:
    evaluation = visir.evaluate(JUDGED, FEW, measures=["mean_rank"])
    result, run, qrels = evaluation.result, evaluation.runs["run"], evaluation.qrels["run"]
    assert expected_by_chance(result, evaluation.runs, evaluation.qrels) == {}
    first = first_ranks(result, "run")
    assert first is not None and np.isinf(first[1]).sum() == 28
    assert np.isinf(ExampleQueries(run, qrels, result).ranks).sum() == 28
    evaluation_report(result, runs=evaluation.runs, qrels=evaluation.qrels).write(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "28 of 30 queries have no right answer among the first 10" in page and "of 0" not in page


def test_r_precision_says_where_the_answers_are_fewer_than_the_right_ones() -> None:
    """The value is that of trec_eval: what lies deeper counts as not found."""
    judged = {**JUDGED, "q0": {f"r{i}": 1 for i in range(15)} | {"d0": 1}}
    evaluation = visir.evaluate(judged, FEW, measures=["Rprec"])
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"Rprec"}).evaluate(FEW)
    assert evaluation["Rprec"] == pytest.approx(np.mean([values["Rprec"] for values in theirs.values()]))
    assert any("1 query has more right answers than the first 10 can hold" in note for note in evaluation.notes)
