"""`visir.read_run`: whatever holds a run."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ranx
import torch

import visir
from refusals import refused
from visir.errors import RunError
from visir.records import Gallery, Run
from visir.retrieval.formats import write_run

ANSWERS = {"q1": {"b": 0.75, "a": 0.5}, "q2": {"a": 0.25}}
ROWS = [("q1", "a", 0.5), ("q1", "b", 0.75), ("q2", "a", 0.25)]
FRAME = pd.DataFrame(ROWS, columns=["query_id", "document_id", "score"])


@pytest.mark.parametrize(
    "source",
    [
        ANSWERS,
        ROWS,
        [ir_measures.ScoredDoc(*row) for row in ROWS],
        FRAME,
        FRAME.rename(columns={"query_id": "q_id", "document_id": "doc_id"}),
        FRAME.rename(columns={"query_id": "qid", "document_id": "docno"}).assign(rank=[1, 0, 0], query="words"),
        pa.Table.from_pandas(FRAME),
        ranx.Run(ANSWERS, name="r"),
    ],
    ids=["dictionary", "tuples", "ScoredDoc", "frame", "ranx frame", "pyterrier", "arrow", "ranx"],
)
def test_every_source_gives_the_same_run(source: object) -> None:
    run = visir.read_run(source, task="t2i", name="mine")
    assert run.to_dict() == ANSWERS and list(run.to_dict()["q1"]) == ["b", "a"]
    assert (run.name, run.task, run.gallery.is_known) == ("mine", "t2i", False)


def test_a_matrix_of_scores() -> None:
    scores = [[0.5, 0.75, 0.5], [1.0, 0.0, -1.0]]
    for given in (scores, np.array(scores, np.float16), torch.tensor(scores, requires_grad=True)):
        run = visir.read_run((given, ["q1", "q2"], ["c", "b", "a"]), depth=2)
        assert run.to_dict() == {"q1": {"b": 0.75, "a": 0.5}, "q2": {"c": 1.0, "b": 0.0}}
        assert run.depth == 2 and run.gallery.size == 3
    with refused(RunError, "2", "3", "3", "2", code="scores-shape-queries-documents") as error:
        visir.read_run((scores, ["c", "b", "a"], ["q1", "q2"]))
    assert "give (scores, query_ids, document_ids)" in str(error.value)
    with refused(RunError, "q", "b", code="score-query-document-not", hint=False):
        visir.read_run(([[0.5, float("nan")]], ["q"], ["a", "b"]))


def test_numbers_as_ids_become_text() -> None:
    assert visir.read_run({7: {12: 0.5}}).to_dict() == {"7": {"12": 0.5}}
    assert visir.read_run(pd.DataFrame({"qid": [7], "docid": [12], "score": [0.5]})).to_dict() == {"7": {"12": 0.5}}


def test_files_and_runs(tmp_path: Path) -> None:
    run = Run.ranked("mine", "t2i", *zip(*ROWS, strict=True), Gallery.of("image", ["a", "b"]))  # type: ignore[arg-type]
    write_run(run, tmp_path / "run.trec")
    again = visir.read_run(tmp_path / "run.trec")
    assert again.to_dict() == ANSWERS and (again.name, again.task) == ("mine", "run")
    assert visir.read_run(run) is not run and visir.read_run(run, name="b").to_dict() == ANSWERS
    assert visir.read_run(run).gallery.size == 2
    FRAME.rename(columns={"document_id": "docno"}).to_parquet(tmp_path / "other.parquet")
    assert visir.read_run(str(tmp_path / "other.parquet")).to_dict() == ANSWERS


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ({"q1": 0.5}, "a dictionary of float is no run", "{'q1': {'a.jpg': 0.5"),
        ({"q1": [1, 2]}, "a dictionary of list is no run", "{query: {document: score}}"),
        ([1, 2], "a list of int is no run: 1", r"\(query, document, score\)"),
        (3, "int is no run", "run.trec"),
        (FRAME.drop(columns="score"), "has no column 'score'; it has query_id, document_id", "score, sim"),
        ([], "the run is empty", ""),
    ],
)
def test_what_is_no_run_is_refused(source: object, said: str, line: str) -> None:
    with pytest.raises(RunError, match=said) as error:
        visir.read_run(source)
    assert line.replace("\\", "") in str(error.value)


@pytest.mark.parametrize("given", [[("q", "d", [1, 2])], [("q", "d", "high")], {"q": {"d": [1.0, 2.0]}}])
def test_what_is_no_score_is_refused_by_its_query(given: object) -> None:
    with pytest.raises(RunError) as caught:
        visir.read_run(given)
    assert "'q'" in str(caught.value) and "'d'" in str(caught.value)
