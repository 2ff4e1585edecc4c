"""Names, arrays, dictionaries, tables and files wherever an evaluation takes a source, a system or judgements."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
import ranx
from evaluation_toys import make_collection, random_pair

import visir
from refusals import refused
from visir.collections import read_qrels
from visir.errors import ConfigurationError, RunError, VisirError
from visir.evaluation.results import load_evaluation
from visir.evaluation.sources import is_judgements
from visir.evaluation.systems.given import task_and_file
from visir.records import Items, Qrels, Task
from visir.retrieval.formats import write_run

COLLECTION = make_collection(12, 2)
IMAGES, CAPTIONS = COLLECTION.images["id"].to_pylist(), COLLECTION.captions["id"].to_pylist()
JUDGED = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}}
ANSWERS = {"q1": {"a": 0.9, "c": 0.5, "b": 0.1}, "q2": {"a": 0.8, "c": 0.4}}


def vectors() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"image": rng.normal(size=(len(IMAGES), 8)), "text": rng.normal(size=(len(CAPTIONS), 8))}


def test_own_vectors_in_three_forms_give_the_same_numbers() -> None:
    given = vectors()
    arrays = visir.evaluate(COLLECTION, vectors={"image": (IMAGES, given["image"]), "text": (CAPTIONS, given["text"])})
    dictionaries = visir.evaluate(
        COLLECTION,
        vectors={"image": dict(zip(IMAGES, given["image"], strict=True)), "text": (CAPTIONS, given["text"].tolist())},
        name="mine",
    )
    assert arrays.aggregates == dictionaries.aggregates and dictionaries.system == "mine"
    one = visir.evaluate(
        COLLECTION, vectors={"query": (CAPTIONS, given["text"]), "document": (IMAGES, given["image"])}, tasks=["t2i"]
    )
    assert one.aggregates["t2i"] == arrays.aggregates["t2i"]


def test_texts_stand_in_place_of_their_ids() -> None:
    """Who reads a CSV has captions and no ids of them."""
    given = vectors()
    texts = COLLECTION.captions["text"].to_pylist()
    by_id = visir.evaluate(COLLECTION, vectors={"image": (IMAGES, given["image"]), "text": (CAPTIONS, given["text"])})
    by_text = dict(zip(texts, given["text"], strict=True))
    assert len(by_text) == len(texts)
    result = visir.evaluate(COLLECTION, vectors={"image": (IMAGES, given["image"]), "text": by_text})
    assert result.aggregates == by_id.aggregates
    del by_text[texts[3]]
    with pytest.raises(VisirError, match="no text vector by own vectors"):
        visir.evaluate(COLLECTION, vectors={"image": (IMAGES, given["image"]), "text": by_text})


def test_bm25_is_a_system_by_name() -> None:
    queries, documents = (
        Items.of_texts({"q": "two dogs"}, title="a"),
        Items.of_texts({"1": "dogs", "2": "x"}, title="b"),
    )
    task = Task("t2t", queries, documents, {"mine": Qrels.of(["q"], ["1"])}, source="by hand")
    assert visir.evaluate(task, "bm25").mean("t2t", "hit@1") == 1
    with refused(ConfigurationError, code="compares-texts"):
        visir.evaluate(COLLECTION, "bm25")


def test_the_list_of_measures_is_gone_through() -> None:
    assert [measure.name for measure in visir.measures()][:2] == ["hit", "recall"]


def test_two_functions_are_a_model() -> None:
    def colours(images: list[Any]) -> list[Any]:
        return [image.resize((1, 1)).getpixel((0, 0)) for image in images]

    def lengths(texts: list[str]) -> list[list[int]]:
        return [[len(text), 1, 1] for text in texts]

    pair = visir.evaluate("scenes:12?size=64", (colours, lengths), split="test", name="pair")
    named = visir.evaluate("scenes:12?size=64", {"image": colours, "text": lengths}, split="test")
    wrapped = visir.evaluate("scenes:12?size=64", visir.Encoder.wrap("w", image=colours, text=lengths), split="test")
    assert pair.aggregates == named.aggregates == wrapped.aggregates and pair.system == "pair"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"images": 1, "text": 2}, r"vectors are given for 'images', 'text'"),
        ({"image": np.eye(12), "text": {}}, r"vectors\['image'\] is a ndarray; which vector belongs to which id\?"),
        ([1, 2], "vectors are given for a list"),
    ],
)
def test_vectors_in_a_wrong_form(given: Any, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line) as fault:
        visir.evaluate(COLLECTION, vectors=given)
    assert "(ids, matrix)" in fault.value.hint


def test_runs_in_every_form_give_the_same_numbers(tmp_path: Path) -> None:
    measured = visir.evaluate(COLLECTION, random_pair(COLLECTION), ["t2i"])
    run = measured.runs["t2i"]
    answers = run.to_dict()
    visir.retrieval.write_run(run, tmp_path / "mine.trec")
    rows = [(query, document, score) for query, answer in answers.items() for document, score in answer.items()]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    forms = [answers, {"t2i": answers}, frame, tmp_path / "mine.trec", ranx.Run(answers), run, measured]
    forms.append([ir_measures.ScoredDoc(*row) for row in rows])
    for form in forms:
        again = visir.evaluate(COLLECTION, form)
        assert again.tasks == ("t2i",) and again["t2i R@1"] == measured["t2i R@1"], type(form)
        assert again["t2i MRR"] == pytest.approx(measured["t2i MRR"])


def test_a_run_whose_ids_have_another_form_shows_both() -> None:
    with refused(RunError, "i2t", "t2i", code="run-answers-no-query") as fault:
        visir.evaluate(COLLECTION, {f"texts/{name}": {IMAGES[0]: 1.0} for name in CAPTIONS})
    assert fault.value.hint == "run: 'texts/i0#0'; t2i: 'i0#0' (they differ by a folder)"


def test_what_is_no_system() -> None:
    with pytest.raises(ConfigurationError, match="there is no system to evaluate"):
        visir.evaluate(COLLECTION)
    with pytest.raises(ConfigurationError, match="system and vectors are given"):
        visir.evaluate(COLLECTION, "bow", vectors={})
    with refused(ConfigurationError, "runs/b.trec", code="no-such-file"):
        visir.evaluate(COLLECTION, "runs/b.trec")
    with refused(ConfigurationError, code="nothing-evaluate"):
        visir.evaluate(system="bow")


def test_all_faults_of_options_before_any_model_is_loaded() -> None:
    with refused(ConfigurationError, "3", "faults") as fault:
        visir.evaluate(COLLECTION, "no such model", measures=["R@one"], recall="hits", split="tset")  # type: ignore[arg-type]
    assert all(word in fault.value.message for word in ("'R@one'", "'hits'", "'tset'"))


def test_numbers_by_the_names_that_people_type() -> None:
    evaluation = visir.evaluate(COLLECTION, random_pair(COLLECTION))
    assert evaluation["t2i R@1"] == evaluation["t2i", "R@1"] == evaluation.mean("t2i", "hit@1")
    assert evaluation["rsum"] == evaluation["both rsum"] == evaluation.aggregates["both"]["rsum"]
    assert evaluation["i2t nDCG@10"] == evaluation.mean("i2t", "ndcg@10")
    assert len(evaluation.values("t2i", "MRR")) == len(CAPTIONS)
    with refused(VisirError, code="task-not-said"):
        evaluation["R@1"]
    with refused(VisirError, "hit@7", code="not-measured") as fault:
        evaluation["t2i R@7"]
    assert "measures=['R@7']" in fault.value.hint
    with refused(VisirError, "unknown measure", "nonsense"):
        evaluation["t2i nonsense"]
    assert evaluation.card["recall"] == "hit" and len(repr(evaluation).splitlines()) <= 6


def test_saved_and_read_back(tmp_path: Path) -> None:
    evaluation = visir.evaluate(COLLECTION, random_pair(COLLECTION))
    back = load_evaluation(evaluation.save(tmp_path / "result"))
    assert back["t2i R@1"] == evaluation["t2i R@1"] and back.protocol == evaluation.protocol


def test_judgements_alone_give_the_numbers_of_ranx_and_ir_measures(tmp_path: Path) -> None:
    names = ["nDCG@10", "AP", "RR", "P@2", "R@2", "Success@1"]
    theirs = ir_measures.calc_aggregate([ir_measures.parse_measure(name) for name in names], JUDGED, ANSWERS)
    ours = visir.evaluate(JUDGED, ANSWERS, measures=names)
    for name in names:
        assert ours[name] == pytest.approx(theirs[ir_measures.parse_measure(name)], abs=1e-12), name
    by_ranx = ranx.evaluate(ranx.Qrels(JUDGED), ranx.Run(ANSWERS), ["ndcg@10", "map", "mrr", "precision@2", "recall@2"])
    for name, value in by_ranx.items():
        assert ours[name] == pytest.approx(value, abs=1e-12), name
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 2\nq2 0 c 1\n")
    lines = [f"{q} Q0 {d} {r} {s} me" for q, a in ANSWERS.items() for r, (d, s) in enumerate(a.items(), 1)]
    (tmp_path / "me.trec").write_text("\n".join(lines))
    forms: list[tuple[Any, Any]] = [
        (tmp_path / "qrels.txt", tmp_path / "me.trec"),
        (str(tmp_path / "qrels.txt"), ANSWERS),
        (ranx.Qrels(JUDGED), ranx.Run(ANSWERS)),
        ([ir_measures.Qrel(q, d, g) for q, a in JUDGED.items() for d, g in a.items()], ANSWERS),
        (pd.DataFrame({"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "c"], "relevance": [1, 2, 1]}), ANSWERS),
    ]
    for qrels, run in forms:
        assert visir.evaluate(qrels, run, measures=names)["nDCG@10"] == ours["nDCG@10"], type(qrels)
        assert visir.evaluate(qrels=qrels, system=run, measures=["AP"])["AP"] == ours["AP"], type(qrels)


def test_judgements_and_a_run_are_known_by_their_lines(tmp_path: Path) -> None:
    """trec_eval's example files are called qrels.test and results.trunc."""
    (tmp_path / "qrels.test").write_text("q 0 a 1\nq 0 b -1\np 0 a 1\n")
    (tmp_path / "results.trunc").write_text("q Q0 b 1 0.5 tag and more\nq Q0 a 2 0.4 tag\n")
    evaluation = visir.evaluate(str(tmp_path / "qrels.test"), tmp_path / "results.trunc", measures=["RR", "P@2"])
    assert evaluation.aggregates == {"run": {"mrr": 0.25, "precision@2": 0.25}}  # p is not answered: it failed


def test_a_run_and_qrels_in_every_documented_way(tmp_path: Path) -> None:
    trec = [f"{q} Q0 {d} 0 {s} x" for q, answer in ANSWERS.items() for d, s in answer.items()]
    (tmp_path / "run").write_text("\n".join(trec))
    (tmp_path / "run.trec").write_text("\n".join(trec))
    expected = visir.evaluate(JUDGED, ANSWERS).aggregates
    for run in (ANSWERS, tmp_path / "run", str(tmp_path / "run.trec"), ranx.Run(ANSWERS)):
        assert visir.evaluate(run, qrels=JUDGED).aggregates == expected
        assert visir.evaluate(qrels=JUDGED, system=run).aggregates == expected
        assert visir.evaluate(JUDGED, run).aggregates == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("beir.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t2\nq2\tc\t1\n"),
        ("named.csv", "qid,docno,label\nq1,a,1\nq1,b,2\nq2,c,1\n"),
        ("texts.csv", "query,document,grade\nq1,a,1\nq1,b,2\nq2,c,1\n"),
        ("float.trec", "q1 0 a 1.0\nq1 0 b 2.0\nq2 0 c 1.0\n"),
        ("comment.trec", "# by hand\n\nq1 0 a 1\r\nq1 0 b 2\r\nq2 0 c 1\r\n"),
        ("mark.trec", "\ufeffq1 Q0 a 1\nq1 Q0 b 2\nq2 Q0 c 1\n"),
        ("three.txt", "q1 a 1\nq1 b 2\nq2 c 1\n"),
        ("qrels.json", '{"q1": {"a": 1, "b": 2}, "q2": {"c": 1}}'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_judgements_are_known_beside_a_run(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert visir.evaluate(path, ANSWERS).aggregates == visir.evaluate(JUDGED, ANSWERS).aggregates
    assert visir.evaluate(qrels=str(path), system=ANSWERS).aggregates == visir.evaluate(JUDGED, ANSWERS).aggregates


def test_a_table_of_texts_is_no_file_of_judgements(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("query,document,label\nred boat,a red boat,1\nblue dog,a blue dog,1\n")
    (tmp_path / "captions.csv").write_text("image,caption\n1.jpg,a\n")
    assert not is_judgements(tmp_path / "texts.csv") and is_judgements(tmp_path / "texts.csv", ANSWERS)
    assert not is_judgements(tmp_path / "captions.csv", ANSWERS)


def test_judgements_alone_say_what_they_declare() -> None:
    evaluation = visir.evaluate(JUDGED, {"q1": ANSWERS["q1"], "other": {"a": 1.0}}, name="mine")
    assert evaluation.protocol.recall == "recall" and evaluation.system == "mine"
    assert evaluation["R@10"] == evaluation.mean("run", "recall@10")
    notes = " ".join(evaluation.notes)
    assert "1 of 2 judged queries are not answered" in notes and "1 answered queries are not judged" in notes
    assert "answers have up to 3 documents" in notes
    wrong = visir.evaluate(JUDGED, {"q1": {"photos/a": 1.0}, "q2": {"photos/c": 1.0}})
    assert "do the ids have one form? run: 'photos/a'; judgements: 'a' (they differ by a folder)" in " ".join(
        wrong.notes
    )


def test_one_measure_needs_no_list_and_all_are_shown() -> None:
    assert visir.evaluate(JUDGED, ANSWERS, measures="MRR").measures == ("mrr",)
    several = visir.evaluate(JUDGED, ANSWERS, measures="MRR, AP(rel=2)@10,P@1")
    listed = visir.evaluate(JUDGED, ANSWERS, measures=["MRR", "AP(rel=2)@10", "P@1"])
    assert several.aggregates == listed.aggregates and len(several.measures) == 3
    with pytest.raises(ConfigurationError, match="measures are named measures="):
        visir.evaluate(JUDGED, ANSWERS, ["MRR"])
    evaluation = visir.evaluate(JUDGED, ANSWERS, measures=["AP(rel=2)", "R@10"])
    assert "map(rel=2)" in evaluation.to_markdown() and "map(rel=2)" in repr(evaluation)
    swapped = visir.evaluate(read_qrels(ANSWERS), JUDGED)  # dictionaries in this order are refused
    assert any("are judgements and run swapped?" in note for note in swapped.notes)


def test_judgements_alone_refuse_what_needs_a_collection() -> None:
    with refused(ConfigurationError, "3", "faults") as fault:
        visir.evaluate(JUDGED, ANSWERS, split="test", folds=5, measures=["RRR"])
    assert "split needs a collection" in fault.value.message and "folds needs" in fault.value.message
    with pytest.raises(ConfigurationError, match="there is no run to measure"):
        visir.evaluate(JUDGED)
    with refused(ConfigurationError, code="judgements-alone-run"):
        visir.evaluate(COLLECTION, ANSWERS, qrels=JUDGED)
    with refused(RunError, code="run-empty", hint="{query: {document: score}}"):
        visir.evaluate({}, qrels=JUDGED)


@pytest.fixture
def vector_files(tmp_path: Path) -> Path:
    """Vectors of scenes: those of both sides in one file, without ids; and of each side, with ids."""
    scenes = visir.open("scenes:24?size=64")
    rng = np.random.default_rng(0)
    image, text = (
        rng.normal(size=(table.num_rows, 8)).astype(np.float32) for table in (scenes.images, scenes.captions)
    )
    np.savez(tmp_path / "both.npz", image=image, text=text)
    np.savez(tmp_path / "image.npz", image_ids=np.array(scenes.images["id"].to_pylist()), image_vectors=image)
    np.savez(tmp_path / "text.npz", text_ids=np.array(scenes.captions["id"].to_pylist()), text_vectors=text)
    return tmp_path


def test_vectors_are_named_by_their_files(vector_files: Path) -> None:
    scenes = visir.open("scenes:24?size=64")
    both, image, text = (vector_files / f"{name}.npz" for name in ("both", "image", "text"))
    first = visir.evaluate(scenes, vectors=both)
    assert first.system == "both"
    for named in (
        f"npz:{both}",
        [image, f"npz:{text}"],
        {"image": image, "text": text},
        [f"text={text}", f"image={image}"],
    ):
        assert visir.evaluate(scenes, vectors=named).aggregates == first.aggregates
    assert visir.evaluate(scenes, vectors=both, name="mine").system == "mine"
    with refused(ConfigurationError, "i2t", "t2i", code="vectors-of-one-task"):
        visir.evaluate(scenes, vectors={"query": text, "document": image})
    by_role = visir.evaluate(scenes, vectors={"query": text, "document": image}, tasks="t2i")
    assert by_role["t2i R@5"] == first["t2i R@5"]


def test_runs_are_named_by_task_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenes = visir.open("scenes:24?size=64").split("test")
    first = visir.evaluate(scenes, "colours")
    for task, run in first.runs.items():
        write_run(run, f"{task}.trec")
    again = visir.evaluate(scenes, ["t2i=t2i.trec", "i2t.trec"])
    assert again["t2i MRR"] == first["t2i MRR"] and again["i2t R@1"] == first["i2t R@1"]
    assert visir.evaluate(scenes, "t2i=t2i.trec").tasks == ("t2i",)
    with refused(ConfigurationError, "t2t", meant="t2i", code="unknown-task"):
        visir.evaluate(scenes, "t2t=t2i.trec")
    with refused(ConfigurationError, code="two-runs-task"):
        visir.evaluate(scenes, ["t2i=t2i.trec", "t2i.trec"])
    assert task_and_file("my-task=t2i.trec") == ("my-task", "t2i.trec")
    Path("plain").write_text(Path("t2i.trec").read_text())  # a TREC run by its lines
    assert visir.evaluate(scenes, "t2i=plain").tasks == ("t2i",)
    for model in ("st:m?prompt=a.json", "org/m?file=run.trec"):
        assert task_and_file(model) == ("", model)
    Path("a=b.trec").write_text(Path("t2i.trec").read_text())
    assert visir.evaluate(scenes, "a=b.trec").tasks == ("t2i",)  # a path may hold "=" too


def test_a_log_is_evaluated_by_its_name(data_dir: Path) -> None:
    log = data_dir / "brittleness-runs" / "f30k" / "clip" / "i2t" / "none.parquet"
    evaluated = visir.evaluate(log, recall="capped_recall")
    assert evaluated.system == "CLIP" and round(evaluated["i2t rsum"], 1) == 209.9
    with refused(ConfigurationError, "none.parquet"):
        visir.evaluate(log, "colours")


def test_an_evaluation_holds_what_was_searched() -> None:
    scenes = visir.open("scenes:12?size=64")
    evaluated = visir.evaluate(scenes, "colours", judgements=None)
    assert evaluated.source is scenes and "source" not in repr(evaluated)
    assert visir.evaluate({"q": {"a": 1}}, {"q": {"a": 0.5}}).source is None


def test_judgements_are_attached_by_name(tmp_path: Path) -> None:
    scenes = visir.open("scenes:24?size=64")
    caption, image = scenes.captions["id"][0].as_py(), scenes.images["id"][5].as_py()
    (tmp_path / "more.qrels").write_text(f"{caption} 0 {image} 1\n")
    evaluated = visir.evaluate(
        "scenes:24?size=64", "colours", "t2i", judgements=tmp_path / "more.qrels", relevance="more"
    )
    assert evaluated.protocol.relevance == "more" and len(evaluated.qrels["t2i"]) == 1


@pytest.mark.parametrize(
    "run", ["x" * 5000, [("q1", "a", "x")], {"query": {"q1": [1, 2]}, "document": {"a": [1, 2]}}], ids=range(3)
)
def test_what_is_no_run_is_refused_in_words(run: Any) -> None:
    with pytest.raises(VisirError):
        visir.evaluate(JUDGED, run)
