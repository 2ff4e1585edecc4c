"""Runs out and back in, identical; and what is refused, where."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pytest
import pytrec_eval

import visir
from refusals import refused
from visir.collections import read_qrels
from visir.errors import CollectionError, RunError, VisirError
from visir.evaluation.measures import measure
from visir.records import Gallery, Qrels, Run
from visir.retrieval import formats
from visir.retrieval.ranks import ranks_of

GALLERY = Gallery.of("image", ["a", "b", "c", "d"], "four")
QRELS = Qrels.of(["q1", "q1", "q2"], ["a", "d", "b"], [1, 2, 1], name="links")


def toy(dtype: type = np.float32, gallery: Gallery = GALLERY) -> Run:
    """Queries out of id order; ties that are not in id order (an imported run with rounded scores)."""
    return Run(
        "my system",
        "t2i",
        pa.array(["q2", "q1"]),
        np.array([0, 3, 5]),
        pa.array(["c", "b", "d", "a"]),
        np.array([0, 1, 3, 2, 0], np.int32),  # q2: c b a, q1: d c
        np.array([0.1, 0.1, -0.25, 1 / 3, 0.0], dtype),
        gallery,
        3,
        {"made": "by hand", "k": [1, 2]},
    )


def assert_identical(one: Run, other: Run, *, all_of_it: bool = True) -> None:
    assert one.to_arrow().equals(other.to_arrow())
    assert one.queries.equals(other.queries) and np.array_equal(one.offsets, other.offsets)
    assert (one.task, one.depth) == (other.task, other.depth)
    assert one.gallery.fingerprint == other.gallery.fingerprint
    if all_of_it:
        assert (one.name, one.provenance) == (other.name, other.provenance)
        assert one.gallery.description == other.gallery.description


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", ["parquet", "json"])
@pytest.mark.parametrize("gallery", [GALLERY, Gallery.stated("image", 31783, "all images")])
def test_parquet_and_json_come_back_identical(tmp_path: Path, suffix: str, dtype: type, gallery: Gallery) -> None:
    run = toy(dtype, gallery)
    formats.write_run(run, tmp_path / f"run.{suffix}")
    assert_identical(formats.read_run(tmp_path / f"run.{suffix}"), run)


def test_a_query_answered_with_nothing_survives_parquet_and_json(tmp_path: Path) -> None:
    run = Run("r", "t2i", pa.array(["x", "y", "z"]), np.array([0, 0, 1, 1]), pa.array(["a"]), np.zeros(1, np.int32),
              np.ones(1, np.float32), GALLERY, 1)  # fmt: skip
    for suffix in ("parquet", "json"):
        formats.write_run(run, tmp_path / f"run.{suffix}")
        assert_identical(formats.read_run(tmp_path / f"run.{suffix}"), run)
    with refused(RunError, "2", "x", code="queries-answered-nothing"):
        formats.write_run(run, tmp_path / "run.trec")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trec_keeps_order_scores_and_depth(tmp_path: Path, dtype: type) -> None:
    run = toy(dtype)
    formats.write_run(run, tmp_path / "run.trec")
    assert (tmp_path / "run.trec").read_text().splitlines()[0] == f"q2 Q0 c 1 {float(dtype(0.1))!r} my_system"
    again = formats.read_run(tmp_path / "run.trec", task="t2i", gallery=GALLERY)
    assert_identical(again, run, all_of_it=False)
    by_score = formats.read_run(tmp_path / "run.trec", task="t2i", gallery=GALLERY, order="score")
    assert [d for d, _ in by_score.answer("q2")] == ["b", "c", "a"]  # the tie goes to the smaller id


def test_pandas_dictionaries_and_ranx() -> None:
    run = toy(np.float64)
    assert_identical(formats.read_run(run.to_pandas(), task="t2i", gallery=GALLERY), run, all_of_it=False)
    renamed = run.to_pandas().rename(columns={"query_id": "qid", "document_id": "docno"})
    assert_identical(formats.read_run(renamed, task="t2i", gallery=GALLERY), run, all_of_it=False)
    assert run.to_dict() == {"q2": {"c": 0.1, "b": 0.1, "a": -0.25}, "q1": {"d": 1 / 3, "c": 0.0}}
    kept = formats.read_run(run.to_dict(keep_order=True), task="t2i", gallery=GALLERY)
    assert kept.answer("q2") == [("c", -1.0), ("b", -2.0), ("a", -3.0)]
    back = formats.read_run(formats.to_ranx(run), task="t2i", gallery=GALLERY)
    assert {q: [d for d, _ in back.answer(q)] for q in ("q1", "q2")} == {"q1": ["d", "c"], "q2": ["c", "b", "a"]}
    assert back.name == "my system"


def test_other_tools_measure_the_same_order() -> None:
    import ir_measures
    import ranx

    run = toy()
    ours = measure(ranks_of(run, QRELS), ["mrr"])
    theirs = {
        m.query_id: m.value
        for m in ir_measures.iter_calc([ir_measures.RR], formats.qrels_to_dict(QRELS), formats.to_ir_measures(run))
    }
    assert (
        dict(zip(ours["query_id"].to_pylist(), ours["mrr"].to_pylist(), strict=True))
        == theirs
        == {"q1": 1.0, "q2": 0.5}
    )
    mean = ranx.evaluate(ranx.Qrels(formats.qrels_to_dict(QRELS)), formats.to_ranx(run), "mrr")
    assert mean == pytest.approx(0.75)


def test_nested_json_of_other_tools(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"q": {"b": 0.5, "a": 0.5, "c": 0.9}}')
    run = formats.read_run(tmp_path / "run.json", task="t2i", gallery=GALLERY)
    assert run.answer("q") == [("c", pytest.approx(0.9)), ("a", 0.5), ("b", 0.5)]
    alone = formats.read_run(tmp_path / "run.json")
    assert (alone.name, alone.task, alone.gallery.is_known) == ("run", "run", False)


def test_trec_qrels(tmp_path: Path) -> None:
    formats.write_qrels(QRELS, tmp_path / "qrels.txt")
    assert (tmp_path / "qrels.txt").read_text() == "q1 0 a 1\nq1 0 d 2\nq2 0 b 1\n"
    again = read_qrels(tmp_path / "qrels.txt")
    assert again.to_dict() == QRELS.to_dict()
    with refused(CollectionError, "0.5", code="grade-not-whole-number"):
        formats.write_qrels(Qrels.of(["q"], ["d"], [0.5]), tmp_path / "qrels.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 a 1\n", r"line 1: 4 fields; a TREC run has six"),
        ("q Q0 a 1 0.5 x\n\nq Q0 b two 0.4 x\n", r"line 3: the rank 'two' is not a number"),
        ("q Q0 a 1 0.5 x\nq Q0 b 2 abc x\n", r"line 2: the score 'abc' is not a number"),
        ("q Q0 a 1 nan x\n", r"line 1: the score is not a finite number"),
        ("q Q0 a 1 -inf x\n", r"line 1: the score is not a finite number.*leave out what was not scored"),
        ("#q Q0 a 1 0.5 x\n#q Q0 b one 0.4 x\n", r"line 2: the rank 'one' is not a number"),
        ("q Q0 a 1 0.5 x\nq Q0 a 2 0.4 x\n", r"line 2: query 'q' lists document 'a' twice"),
        ("q Q0 a 1 0.5 x\nq Q0 zz 2 0.4 x\n", r"line 2: document 'zz' is not in the gallery \(4 · four\); 1 such"),
        ("", r"the run is empty"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.txt").write_text(text)
    with pytest.raises(RunError, match=r"(?s)run\.txt.*" + message):
        formats.read_run(tmp_path / "run.txt", task="t2i", gallery=GALLERY)


@pytest.mark.parametrize(
    ("text", "answer", "note"),
    [
        ("q Q0 a 1 0.5 x\nq Q0 b 2 0.5 x\nq Q0 c 3 0.4 x\n", "abc", ""),
        ("q Q0 b 1 0.5 x\nq Q0 a 2 0.5 x\nq Q0 c 3 0.4 x\n", "bac", ""),  # the order of the authors, scores rounded
        ("q Q0 c 2 0.4 x\nq Q0 a 0 0.6 x\nq Q0 b 1 0.5 x\n", "abc", ""),  # ranks from 0, lines in any order
        ("q Q0 b 1 0.5 x\nq Q0 c 1 0.5 x\nq Q0 a 1 0.6 x\n", "abc", "of 1 query repeat"),
        ("q Q0 c 0 0.5 x\nq Q0 b 0 0.5 x\nq Q0 a 0 0.5 x\n", "abc", "of 1 query repeat"),
        ("q Q0 c 1 0.4 x\nq Q0 b 2 0.6 x\nq Q0 a 3 0.7 x\n", "abc", "if these are distances, negate them"),
        ("q Q0 b 1 0.5 x\nq Q0 a 2 0.6 x\nq Q0 c 3 0.4 x\n", "abc", "the scores decide"),
        ("# by hand\n\nq\tQ0\ta\t1.0\t0.6\tx\r\nq Q0 b 2.0 5e-1 x\r\nq Q0 c 3.0 0.4 x", "abc", ""),
    ],
)
def test_scores_decide_and_ranks_order_equal_ones(tmp_path: Path, text: str, answer: str, note: str) -> None:
    (tmp_path / "run.trec").write_text("\ufeff" + text)
    run = formats.read_run(tmp_path / "run.trec")
    assert "".join(run.top("q", 3)) == answer
    notes = run.provenance.get("notes", [])
    assert len(notes) == bool(note) and note in "".join(notes)
    judged = {"q": {"a": 1}}
    shown = visir.evaluate(judged, tmp_path / "run.trec", measures=["MRR"])
    assert list(shown.notes) == notes and shown["MRR"] == 1 / (answer.index("a") + 1)
    if len(set(run.scores.tolist())) == 3:  # trec_eval orders equal scores in another way, and ignores ranks always
        parsed = [line.split() for line in text.splitlines() if line.count("x")]
        scores = {"q": {cells[2]: float(cells[4]) for cells in parsed}}
        theirs = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(scores)
        assert shown["MRR"] == theirs["q"]["recip_rank"]
    frame = run.to_pandas().sample(frac=1, random_state=0)
    assert formats.read_run(frame).answer("q") == run.answer("q")


def test_a_compressed_run_with_a_comment_and_no_ending_is_known(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("# by hand\nq Q0 a 0 0.6 x\nq Q0 b 0 0.5 x\n")
    assert formats.read_run(tmp_path / "results").top("q", 1) == ["a"]
    with gzip.open(tmp_path / "run.trec.gz", "wt") as file:
        file.write("q Q0 a 0 0.6 x\n")
    assert visir.evaluate({"q": {"a": 1}}, tmp_path / "run.trec.gz")["MRR"] == 1
    assert visir.evaluate({"q": {"a": 1}}, str(tmp_path / "results"))["MRR"] == 1


def test_a_trec_run_is_known_by_its_lines(tmp_path: Path) -> None:
    """trec_eval's own example is called results.trunc, and its lines have more behind the tag, which it ignores."""
    (tmp_path / "results.trunc").write_text("q Q0 a 1 0.5 STANDARD more junk at\nq\tQ0\tb\t2\t 0.25\tSTANDARD\n")
    run = formats.read_run(tmp_path / "results.trunc")
    assert run.answer("q") == [("a", 0.5), ("b", 0.25)] and run.name == "STANDARD"
    (tmp_path / "notes.trunc").write_text("six words that are no run\n")
    (tmp_path / "binary.trunc").write_bytes(bytes(range(256)))
    for name in ("notes.trunc", "binary.trunc"):
        with refused(RunError, ".trunc", code="suffix-tells-no-run"):
            formats.read_run(tmp_path / name)


def test_other_faults(tmp_path: Path) -> None:
    with refused(RunError, ".csv", code="suffix-tells-no-run"):
        formats.read_run(tmp_path / "run.csv")
    with refused(VisirError, "run", "format", "trek", code="unknown-name", meant="trec"):
        formats.read_run(tmp_path / "run.csv", format="trek")
    with refused(RunError, "document", "a b", code="id-white-space-ends"):
        formats.write_run(
            Run.ranked("r", "t2i", ["q"], ["a b"], [1.0], Gallery.of("image", ["a b"])), tmp_path / "r.trec"
        )
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with refused(RunError, "bad.parquet", code="not-readable-parquet-file", hint=False):
        formats.read_run(tmp_path / "bad.parquet")
    toy().to_pandas().rename(columns={"document_id": "documentid"}).to_parquet(tmp_path / "cols.parquet")
    with refused(RunError, "cols.parquet", "document_id", "documentid", code="no-column", hint="docno"):
        formats.read_run(tmp_path / "cols.parquet", task="t2i", gallery=GALLERY)


@pytest.mark.parametrize("name", ["run.json.gz", "run.json.xz", "run.trec.gz", "run.trec.xz"])
def test_a_run_is_packed_as_its_name_says(name: str, tmp_path: Path) -> None:
    formats.write_run(toy(np.float64), tmp_path / name)
    formats.write_run(toy(np.float64), tmp_path / name)  # the same bytes again are no other file
    assert_identical(formats.read_run(tmp_path / name, task="t2i", gallery=GALLERY), toy(np.float64), all_of_it=False)
    with refused(RunError, "run.parquet.gz", code="parquet-packed-already-not"):
        formats.write_run(toy(), tmp_path / "run.parquet.gz")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("q1\tQ0\tcat 3\t1\t0.9\tmy tag\nq1\tQ0\tb\t2\t0.8\tmy tag\n", ["cat 3", "b"]),
        ("q1\tcat 3\t0.9\nq1\tb\t0.8\n", ["cat 3", "b"]),
        ("q1\tQ0\tcat 3\t1\t0.9\nq1\tQ0\tb\t2\t0.8\n", ["cat 3", "b"]),
        ("q1 Q0 a 1 0.9 my long tag 2\nq1 Q0 b 2 0.8 my long tag 2\n", ["a", "b"]),
        ("q1 Q0 a\t1\t0.9 t\nq1 Q0 b\t2\t0.8 t\n", ["a", "b"]),
        ("q1 Q0 a 1 0.9 t\rq1 Q0 b 2 0.8 t\r", ["a", "b"]),
        ("q1 Q0 a 1 0.9 t\r\nq1 Q0 b 2 0.8 t\rq1 Q0 c 3 0.7 t", ["a", "b", "c"]),
    ],
)
def test_tabs_words_of_a_tag_and_line_ends(tmp_path: Path, text: str, answer: list[str]) -> None:
    (tmp_path / "run.trec").write_bytes(text.encode())
    assert formats.read_run(tmp_path / "run.trec").top("q1", 9) == answer
    (tmp_path / "unnamed").write_bytes(text.encode())
    assert formats.run_form(tmp_path / "unnamed") == (
        "" if len(text.split("\n")[0].split("\t")) in (3, 5) and "Q0 a" not in text else "trec"
    )


@pytest.mark.parametrize("line", ["q1 Q0 cat 3 1 0.9 t", "q1 Q0 cat 3 4 1 0.9 t", "a 1 Q0 5 1 0.9 t"])
def test_an_id_with_a_space_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "run.trec").write_text(f"q0 Q0 a 1 0.9 t\n{line}\n")
    with refused(RunError, "line 2", line, code="fields-shifted", hint="tabs"):
        formats.read_run(tmp_path / "run.trec")


def test_ids_of_json_lines_are_texts_whatever_their_types(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    rows = [
        '"query_id": 1, "document_id": "a"',
        '"query_id": "1", "document_id": 7',
        '"query_id": 1.0, "document_id": 8',
    ]
    notes = ["1", '"x"', "[2]"]
    file.write_text(
        "".join(f'{{{ids}, "score": {s}, "n": {n}}}\n' for ids, s, n in zip(rows, (3, 2.5, '"1"'), notes, strict=True))
    )
    assert formats.read_run(file).to_dict() == {"1": {"a": 3.0, "7": 2.5, "8": 1.0}}
    for value in ("null", "true", "[1]", '{"a": 1}'):
        file.write_text(f'{{{rows[0]}, "score": 1}}\n{{"query_id": 2, "document_id": {value}, "score": 2}}\n')
        with refused(RunError, "line 2", code="no-id-in-row"):
            formats.read_run(file)
    file.write_text(f'{{{rows[0]}, "score": 1}}\n{{{rows[1]}, "score": "high"}}\n')
    with refused(RunError, "row 2", "high", hint=False):
        formats.read_run(file)


def test_scores_that_no_float_holds_are_refused() -> None:
    with refused(RunError, "q", "a", code="score-too-large"):
        formats.read_run({"q": {"b": 1, "a": 2**20000}})
    with refused(RunError, "q", "a", code="score-too-large"):
        formats.read_run([("q", "a", -(2**2000))])
    with refused(RunError, "row 2", code="score-too-large"):
        formats.read_run(pandas.DataFrame({"query_id": ["q", "q"], "document_id": ["a", "b"], "score": [1, 2**2000]}))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"q1": {"a": 0.9}, "q1": {"b": 0.5}}', "q1"),
        ('{"q1" : {"a": 0.9, "b": 1, "a": 0.5}}', "a"),
        ('{"q:1": {"a": 0.9}, "q2": {"b": 0.5}, "q\\u003a1": {}}', "q:1"),
        ('{"q1": {"a:b": 0.9, "a\\u003ab": 0.5}}', "a:b"),
    ],
)
def test_a_key_twice_in_json_is_refused(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with refused(RunError, "file.json", key, code="key-twice"):
        formats.read_run(file)
    file.write_text(text.replace("0.", ""))
    with refused(CollectionError, "file.json", key, code="key-twice"):
        read_qrels(file)


@pytest.mark.parametrize(
    "text", ['{"q:1": {"a:b": 1, "c": 2}}', '{"q\\u003a1": {"a:b": 1, "c": 2}}', '{ "q:1" : { "a:b" :1,\n"c" : 2 } }']
)
def test_colons_in_ids_are_no_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.json").write_text(text)
    assert formats.read_run(tmp_path / "file.json").to_dict() == {"q:1": {"c": 2.0, "a:b": 1.0}}
    assert read_qrels(tmp_path / "file.json").to_dict() == {"q:1": {"a:b": 1.0, "c": 2.0}}
