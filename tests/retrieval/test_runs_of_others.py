"""Runs and judgements in the forms of other tools and shells: columns left out, tables, lists, two bytes a letter."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

import visir
from refusals import refused
from visir.errors import RunError
from visir.retrieval.formats import run_form

QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n"
RUN = "q1 Q0 d1 1 9.5 t\nq1 Q0 d9 2 8.5 t\nq2 Q0 d3 1 7 t\n"
ORDER = {"q1": ["d1", "d9"], "q2": ["d3"]}


def order(run: visir.Run) -> dict[str, list[str]]:
    return {query: [document for document, _ in run.answer(query)] for query in run.queries.to_pylist()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.txt", "".join(f"{line.removesuffix(' t')}\n" for line in RUN.splitlines())),  # no tag
        ("run.txt", "q1 d1 9.5\nq1 d9 8.5\nq2 d3 7\n"),
        ("run.tsv", "q1\td9\t0.1\nq1\td1\t0.5\nq2\td3\t-7\n"),
        ("run.csv", "q_id,doc_id,score\nq1,d9,8.5\nq1,d1,9.5\nq2,d3,7\n"),
        ("run.tsv", "qid\tdocno\trank\tscore\nq1\td9\t2\t8.5\nq1\td1\t1\t9.5\nq2\td3\t1\t7\n"),
        ("run.jsonl", '{"query_id":"q1","doc_id":"d1","score":2}\n{"query_id":"q1","doc_id":"d9","score":1}\n'
                      '{"query_id":"q2","doc_id":"d3","score":1}\n'),
    ],
)  # fmt: skip
def test_files_with_other_columns(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    run = visir.read_run(path)
    assert order(run) == ORDER and "notes" not in run.provenance
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert order(visir.read_run(packed)) == ORDER


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.tsv", "q1\td1\t1\nq1\td9\t2\nq2\td3\t1\n"),  # as of MS MARCO
        ("run.txt", "q1 d9 1\nq1 d1 0\nq2 d3 0\n"),
        ("run.csv", "qid,docid,rank\nq1,d9,2\nq1,d1,1\nq2,d3,1\n"),
    ],
)
def test_ranks_alone_are_the_order_and_said(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    run = visir.read_run(path)
    assert order(run) == ORDER
    assert run.provenance["notes"] == ["it has ranks and no scores: the order is that of the ranks"]


def test_numbers_that_are_no_ranks_are_scores(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    for text in ("q1 d1 3\nq1 d9 1\nq2 d3 1\n", "q1 d1 2.0\nq1 d9 1.0\nq2 d3 1\n", "q1 d1 3\nq1 d9 2\nq2 d3 2\n"):
        path.write_text(text)
        assert order(visir.read_run(path)) == ORDER, text


def test_lists_of_documents_are_a_run() -> None:
    assert order(visir.read_run({"q1": ["d1", "d9"], "q2": ("d3",)})) == ORDER
    assert float(visir.evaluate({"q1": {"d9": 1}}, {"q1": ["d1", "d9"]}, measures=["mrr"])["mrr"]) == 0.5
    with refused(RunError, "list"):
        visir.read_run({"q1": ["d1", "d1"]})
    frame = pa.table({"query_id": ["q1", "q1", "q2"], "doc_id": ["d9", "d1", "d3"], "rank": [2, 1, 1]})
    assert order(visir.read_run(frame)) == ORDER


def test_faults_of_such_files_name_place_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    for text, words, hint in (
        ("q1 Q0 d1 1 9,5 t\n", ("line 1", "9,5"), "a point"),
        ("q1 Q0 d1 1\n", ("line 1", "4"), ".csv"),
        ("q1 d1 1\nq1 Q0 d2 2 3 t\n", ("line 2", "6"), ".csv"),
        ("q1 d1 0.5\nq1 d1 0.4\n", ("line 2", "d1", "twice"), "leave one"),
    ):
        path.write_text(text)
        with refused(RunError, *words, hint=hint):
            visir.read_run(path)
    table = tmp_path / "run.csv"
    table.write_text('qid,docid,score\nq1,d1,2\nq1,d2,"1,5"\n')
    with refused(RunError, "run.csv", "row 2", "score", "1,5", hint="a point"):
        visir.read_run(table)


def test_tables_that_are_no_runs(tmp_path: Path) -> None:
    for name, text in (
        ("c.csv", "image,caption\na.jpg,a dog\n"),
        ("q.csv", "query_id,doc_id,relevance\nq1,d1,1\n"),
        ("t.tsv", "image\ta caption 3\n"),
        ("x.md", "some words"),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert run_form(path) == "", name
    assert run_form("gone.csv") == "" and run_form("gone.trec") == "trec"


_JSON = '{"query-id":"q1","corpus-id":"d1","score":1}\n{"query-id":"q2","corpus-id":"d3","score":1}\n'
_TEXTS = [("qrels.tsv", "q1\td1\nq2\td3\n"), ("qrels.txt", "q1 d1\nq2 d3\n"), ("qrels.txt", QRELS)]


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [("qrels.jsonl", _JSON, "utf-8"), *((*text, code) for text in _TEXTS for code in ("utf-8", "utf-16"))],
)
def test_judgements_of_few_columns_beside_a_run(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    qrels, run = tmp_path / name, tmp_path / "run.txt"
    qrels.write_bytes(text.encode(encoding))
    run.write_bytes(RUN.encode(encoding))  # as PowerShell's > writes it
    assert float(visir.evaluate(str(qrels), str(run), measures=["ndcg@10"])["ndcg@10"]) == 1.0
