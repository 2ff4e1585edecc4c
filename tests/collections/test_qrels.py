"""Judgements in every form in which tools keep them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import visir
from refusals import refused
from visir.collections import attach_judgements, read_qrels
from visir.errors import CollectionError
from visir.records import Collection, Qrels, show_id_forms

EXPECTED = {"q1": {"a.jpg": 2.0, "b.jpg": 0.0}, "q2": {"c d.jpg": 1.0}}
ROWS = [("q1", "a.jpg", 2), ("q1", "b.jpg", 0), ("q2", "c d.jpg", 1)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tabs.qrels", "q1\t0\ta.jpg\t2\nq1\t0\tb.jpg\t-1\nq2\t0\tc d.jpg\t1\n"),
        ("beir.tsv", "query-id\tcorpus-id\tscore\nq1\ta.jpg\t2\nq1\tb.jpg\t0\nq2\tc d.jpg\t1\n"),
        ("named.csv", "query_id,document_id,grade\nq1,a.jpg,2\nq1,b.jpg,0\nq2,c d.jpg,1\n"),
        ("german.csv", "qid;docno;label\r\nq1;a.jpg;2\r\nq1;b.jpg;0\r\nq2;c d.jpg;1\r\n"),
        ("bare.csv", "q1,a.jpg,2\nq1,b.jpg,0\nq2,c d.jpg,1\n"),
        ("nested.json", json.dumps({"q1": {"a.jpg": 2, "b.jpg": 0}, "q2": {"c d.jpg": 1}})),
        ("named.json", json.dumps({"qrels": {"q1": {"a.jpg": 2, "b.jpg": 0}, "q2": {"c d.jpg": 1}}})),
        ("rows.json", json.dumps([{"query_id": q, "doc_id": d, "relevance": g} for q, d, g in ROWS])),
        ("rows.jsonl", "\n".join(json.dumps({"query-id": q, "corpus-id": d, "score": g}) for q, d, g in ROWS)),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    qrels = read_qrels(tmp_path / name)
    assert qrels.to_dict() == EXPECTED
    assert qrels.name == Path(name).stem


def test_a_utf_16_file_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "query_id\tdocument_id\nq1\ta.jpg\n"
    (tmp_path / "a.tsv").write_text(text, encoding="utf-16")
    (tmp_path / "b.tsv").write_text(text, encoding="utf-8-sig")
    assert read_qrels(tmp_path / "a.tsv").to_dict() == read_qrels(tmp_path / "b.tsv").to_dict() == {"q1": {"a.jpg": 1}}


def test_objects_of_other_libraries() -> None:
    import ir_measures
    import pandas as pd
    import ranx

    plain = {"q1": {"a.jpg": 2, "b.jpg": 0}, "q2": {"c d.jpg": 1}}
    table = pa.table({"query_id": ["q1", "q1", "q2"], "document_id": ["a.jpg", "b.jpg", "c d.jpg"], "grade": [2, 0, 1]})
    forms = [
        plain,
        ROWS,
        Qrels.of(*zip(*ROWS, strict=True)),
        ranx.Qrels({query: {d: max(g, 1) for d, g in judged.items()} for query, judged in plain.items()}),
        [ir_measures.Qrel(*row) for row in ROWS],
        table,
        pd.DataFrame(ROWS, columns=["qid", "docno", "label"]),
        {"query_id": ["q1", "q1", "q2"], "doc_id": ["a.jpg", "b.jpg", "c d.jpg"], "relevance": [2, 0, 1]},
    ]
    for form in forms:
        expected = EXPECTED if "ranx" not in type(form).__module__ else {**EXPECTED, "q1": {"a.jpg": 2, "b.jpg": 1}}
        assert read_qrels(form).to_dict() == expected
    assert read_qrels({"q1": ["a", "b"], "q2": "c"}).to_dict() == {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}}


def test_columns_of_other_names(tmp_path: Path) -> None:
    pq.write_table(pa.table({"frage": [7], "bild": ["a.jpg"], "note": [3.0]}), tmp_path / "q.parquet")
    assert read_qrels(tmp_path / "q.parquet", query="frage", document="bild", grade="note").to_dict() == {
        "7": {"a.jpg": 3.0}
    }
    with refused(CollectionError, "query and document", "frage", "bild", "note", code="no-column-ids") as f:
        read_qrels(tmp_path / "q.parquet")
    assert f.value.hint == 'name them: read_qrels(…, query="COLUMN", document="COLUMN")'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 a 1\nq1 a 1\n", "line 2: 3 fields; qrels have four: query 0 document grade"),
        ("q1 0 a 1\nq1 0 b much\n", "line 2: the grade 'much' is not a number"),
        ("q1 0 a 1\nq1 0 b nan\n", "line 2: the grade 'nan' is not finite.*\n.*leave out"),
        ("query,document,grade\nq1,a,1e999\n", "line 2: the grade '1e999' is not finite"),
        ("q1 0 a 1\nq1 0 a 0\n", r"line 2: query 'q1' and document 'a' are judged twice \(before: line 1\)"),
        ("\n\n", "no judgements"),
        ('{"q1": {"a": 1}', "not valid JSON"),
    ],
)
def test_faults_name_their_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(CollectionError, match=message):
        read_qrels(tmp_path / "q.txt")


def test_what_is_no_judgement_says_what_is() -> None:
    with refused(CollectionError, "int", code="cannot-read-judgements") as fault:
        read_qrels(7)
    assert 'read_qrels({"q1": {"a.jpg": 1}}) works' in fault.value.hint
    with refused(CollectionError, "entry 1", "q1", code="no-judgement"):
        read_qrels(["q1"])
    with refused(CollectionError, "query_id 1", "doc_id 2", code="columns-differ-length", hint=False):
        read_qrels({"query_id": ["a"], "doc_id": ["b", "c"]})


@pytest.mark.parametrize(
    ("left", "right", "difference"),
    [
        ("images/a1.jpg", "a1.jpg", " (they differ by a folder)"),
        ("a1.jpg", "a1", " (they differ by a file ending)"),
        ("images/0001.jpg", "1", " (they differ by a folder, a file ending and leading zeros)"),
        ("A1.JPG#0", "a1.jpg#0", " (they differ by upper and lower case)"),
        ("a1", "b2", ""),
    ],
)
def test_both_forms_of_ids_are_shown(left: str, right: str, difference: str) -> None:
    shown = show_id_forms("collection", ["other", left], "qrels", [right, "else"])
    first = "other" if not difference else left
    assert shown == f"collection: {first!r}; qrels: {right!r}{difference}"


def toy() -> Collection:
    return Collection.build(
        "toy",
        images={"id": ["images/0001.jpg", "images/0002.jpg"]},
        captions={
            "id": ["images/0001.jpg#0", "images/0002.jpg#0"],
            "text": ["x", "y"],
            "image_id": ["images/0001.jpg", "images/0002.jpg"],
        },
    )


@pytest.mark.parametrize("task", ["t2i", "i2t"])
def test_qrels_become_judgements_of_a_collection(tmp_path: Path, task: str) -> None:
    caption, image = "images/0001.jpg#0", "images/0002.jpg"
    query, document = (caption, image) if task == "t2i" else (image, caption)
    (tmp_path / "people.txt").write_text(f"{query} 0 {document} 2\n{query} 0 elsewhere 1\n")
    judged = visir.open(toy(), judgements=tmp_path / "people.txt")
    assert judged.relevances == ("links", "people")
    assert judged.qrels(task, "people").to_dict() == {query: {document: 2.0}}
    assert judged.source.endswith("people.txt: 1, 1 about other images or captions left out")
    for form in ({query: {document: 2}}, [(query, document, 2)], Qrels.of([query], [document], [2], name="qrels")):
        assert visir.open(toy(), judgements=form).qrels(task, "qrels").to_dict() == {query: {document: 2.0}}


def test_ids_of_another_form_are_shown_side_by_side(tmp_path: Path) -> None:
    with refused(CollectionError, "1", code="none-judgements-about-caption") as fault:
        visir.open(toy(), judgements={"0001.jpg#0": {"0002": 1}})
    assert fault.value.hint == (
        "the ids are different: captions of the collection: 'images/0001.jpg#0'; queries: '0001.jpg#0' "
        "(they differ by a folder); images of the collection: 'images/0002.jpg'; documents: '0002' "
        "(they differ by a folder and a file ending); give both the same form"
    )


def test_a_collection_whose_ids_do_not_tell_the_direction() -> None:
    both = Collection.build(
        "toy", images={"id": ["1", "2"]}, captions={"id": ["1", "2"], "text": ["x", "y"], "image_id": ["1", "2"]}
    )
    with refused(CollectionError, code="queries-of-either-side") as fault:
        visir.open(both, judgements={"1": {"2": 1}})
    assert "task=t2i" in fault.value.hint
    assert attach_judgements(both, {"1": {"2": 1}}, task="i2t").qrels("i2t", "qrels").to_dict() == {"1": {"2": 1.0}}
