"""`visir evaluate` end to end on generated scenes, and on real CLIP vectors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import visir
from verbs import say
from visir.cli.evaluate import evaluate
from visir.collections import open_collection
from visir.evaluation.results import load, load_evaluation, save
from visir.records import Embeddings, EncoderCard
from visir.retrieval.formats import write_run

SCENES = "scenes:24?size=64"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    collection = open_collection(SCENES)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(collection.images.num_rows, 32))
    ids = collection.images["id"].to_pylist()
    rows = [ids.index(one) for one in collection.captions["image_id"].to_pylist()]
    texts = images[rows] + 2 * rng.normal(size=(len(rows), 32))
    file = tmp_path / "vectors.npz"
    np.savez(file, image=images.astype(np.float32), text=texts.astype(np.float32))
    return file


def test_table_card_and_files(vectors: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = say(evaluate, SCENES, "--embeddings", vectors, "--out", out)
    assert said.status == 0
    for part in (
        "image → text",
        "R@1",
        "R@k is hit@k",
        "rsum",
        "Protocol card",
        "galleries text → image",
        "24 images",
        "120 captions",
    ):
        assert part in said.text, said.text
    names = {path.name for path in out.iterdir()}
    assert {"result.json", "report.html", "per_query_i2t.parquet", "run_t2i.parquet", "qrels_i2t.parquet"} <= names
    assert load(out).system == "vectors"
    assert "<html" in (out / "report.html").read_text("utf-8")
    again = say(evaluate, SCENES, "--embeddings", vectors, "--out", out)
    assert again.status == 2
    assert "out: exists already (a folder of kind 'result')" in again.text
    assert say(evaluate, SCENES, "--embeddings", vectors, "--out", out, "--replace").status == 0


def test_the_blind_baseline_is_saved_beside_the_result(tmp_path: Path) -> None:
    source, out = "scenes:30?task=choice&size=64", tmp_path / "out"
    pools = visir.open(source).task("i2t").pools
    queries = pools.queries.take(pools.query_rows).to_pylist()
    lines = [
        f"{query} Q0 {text} {place % 2 + 1} {-place} x"
        for place, (query, text) in enumerate(zip(queries, pools.documents.to_pylist(), strict=True))
    ]
    (tmp_path / "mine.trec").write_text("\n".join(lines))
    run = f"i2t={tmp_path / 'mine.trec'}"
    said = say(evaluate, source, "--run", run, "--blind", "scenes:60?size=64&seed=5", "--out", out)
    assert said.status == 0, said.text
    assert load(out / "blind").system.startswith("blind (3-grams of")
    assert visir.compare(out / "blind", out).systems[1] == load(out).system


def test_runs_from_files(vectors: Path, tmp_path: Path) -> None:
    out, second, third = (tmp_path / name for name in ("first", "second", "third"))
    say(evaluate, SCENES, "--embeddings", vectors, "--out", out)
    own = say(evaluate, SCENES, "--run", out / "run_t2i.parquet", "--run", out / "run_i2t.parquet", "--out", second)
    assert own.status == 0, own.text
    for measure in ("hit@1", "hit@10", "mrr"):
        assert load(second).mean("t2i", measure) == load(out).mean("t2i", measure)
    write_run(load_evaluation(out).runs["t2i"], tmp_path / "mine.trec")
    trec = say(evaluate, SCENES, "--run", f"t2i={tmp_path / 'mine.trec'}", "--out", third)
    assert trec.status == 0, trec.text
    assert load(third).tasks == ("t2i",)
    assert load(third).mean("t2i", "rsum") == load(out).mean("t2i", "rsum")


def test_a_split_searched_over_the_whole_collection_has_a_report(vectors: Path, tmp_path: Path) -> None:
    """The report shows answers from outside the split, with their pictures."""
    out = tmp_path / "out"
    searched = (SCENES, "--embeddings", vectors, "--split", "test", "--gallery", "collection", "--out", out)
    said = say(evaluate, *searched)
    assert said.status == 0, said.text
    saved = load_evaluation(out)
    collection = open_collection(SCENES)
    inside = set(collection.split("test").images["id"].to_pylist())
    assert set(saved.runs["t2i"].documents.to_pylist()) - inside, "answers from outside the split"
    assert "picture cannot be shown" not in (out / "report.html").read_text("utf-8")


def test_a_run_from_outside_says_its_similarity_or_that_it_is_not_declared(vectors: Path, tmp_path: Path) -> None:
    say(evaluate, SCENES, "--embeddings", vectors, "--similarity", "dot", "--out", tmp_path / "own")
    own = load_evaluation(tmp_path / "own")
    assert own.result.protocol.similarity == "dot"
    write_run(own.runs["t2i"], tmp_path / "theirs.trec")
    theirs = f"t2i={tmp_path / 'theirs.trec'}"
    bare = say(evaluate, SCENES, "--run", theirs)
    assert any(line.split() == ["similarity", "not", "declared"] for line in bare.text.splitlines()), bare.text
    said = say(evaluate, SCENES, "--run", theirs, "--similarity", "dot", "--out", tmp_path / "declared")
    assert said.status == 0, said.text
    declared = load_evaluation(tmp_path / "declared")
    assert declared.result.protocol.similarity == declared.runs["t2i"].provenance["similarity"] == "dot"
    again = say(evaluate, SCENES, "--run", tmp_path / "own" / "run_t2i.parquet", "--similarity", "cosine")
    assert "was scored by dot, not by cosine, as it says itself" in again.text
    assert (
        "unknown similarity 'dots' (did you mean 'dot'"
        in say(evaluate, SCENES, "--embeddings", vectors, "--similarity", "dots").text
    )


def test_a_result_says_where_its_vectors_come_from_and_when_they_were_made(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    os.utime(vectors, (0, 0))
    imported = say(evaluate, SCENES, "--embeddings", vectors, "--out", tmp_path / "file")
    where = "from the file vectors.npz, last changed at 1970-01-01T00:00:00+00:00"
    assert load(tmp_path / "file").origins == {"image vectors": where, "text vectors": where}
    assert f"text vectors: {where}" in " ".join(imported.text.split())
    assert where in (tmp_path / "file" / "report.html").read_text("utf-8")

    again = say(evaluate, SCENES, "--run", tmp_path / "file" / "run_t2i.parquet", "--out", tmp_path / "run")
    assert "t2i run: made before, by visir or its caller" in " ".join(again.text.split())
    write_run(load_evaluation(tmp_path / "file").runs["t2i"], tmp_path / "mine.trec")
    trec = say(evaluate, SCENES, "--run", f"t2i={tmp_path / 'mine.trec'}")
    assert "t2i run: from the file mine.trec" in " ".join(trec.text.split())


def test_vectors_of_the_store_keep_their_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded once, found again: both say when that was, and the second says that it is from the store."""
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    collection = open_collection(SCENES)
    pixels = visir.load("pixels")
    first, second = (visir.encode(pixels, collection, "image") for _ in range(2))
    assert first.origin.startswith("encoded at 20")
    assert second.origin == f"from the vector store, {first.origin}"
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(120, first.dimension)).astype(np.float32)
    given = Embeddings("text", collection.captions["id"], texts, EncoderCard("mine", "imported"))  # type: ignore[arg-type]
    found = visir.evaluate(collection, [second, given]).result
    assert found.origins == {"image vectors": second.origin, "text vectors": "given by the caller"}
    save(found, tmp_path / "out")
    assert load(tmp_path / "out").origins == found.origins


def test_a_system_is_named_exactly_once(vectors: Path) -> None:
    assert "name exactly one system to evaluate" in say(evaluate, SCENES).text
    assert "name exactly one system" in say(evaluate, SCENES, "--model", "bow", "--embeddings", vectors).text
    unknown = say(evaluate, SCENES, "--embeddings", vectors, "--split", "tset", "--recall", "hits")
    assert unknown.status == 2


def test_real_clip_vectors(data_dir: Path, tmp_path: Path) -> None:
    """The figures in the data's README: i2t 79.5 / 97.6 / 99.6, t2i 80.5 / 97.0 / 99.2."""
    folder = data_dir / "clip_embeddings"
    said = say(
        evaluate,
        folder / "shopsphere_1126_descriptions.csv.xz",
        *("--images", "none", "--embeddings", f"npz:{folder / 'shopsphere_1126_clip_f16.npz'}", "--out", tmp_path),
    )
    assert said.status == 0, said.text
    result = load(tmp_path)
    assert [round(100 * result.mean("i2t", f"hit@{k}"), 1) for k in (1, 5, 10)] == [79.5, 97.6, 99.6]
    assert [round(100 * result.mean("t2i", f"hit@{k}"), 1) for k in (1, 5, 10)] == [80.5, 97.0, 99.2]


def test_a_log_of_the_brittleness_paper(data_dir: Path, tmp_path: Path) -> None:
    log = data_dir / "brittleness-runs" / "f30k" / "clip" / "i2t" / "none.parquet"
    said = say(evaluate, log, "--recall", "capped_recall", "--out", tmp_path)
    assert "209.9" in said.text
    assert load(tmp_path).protocol.recall == "capped_recall"
    assert "is a run already" in say(evaluate, log, "--model", "bow").text


def test_a_task_from_elsewhere(tmp_path: Path) -> None:
    """Texts search texts: a folder in BEIR's layout, with a model, with vectors of one's own, and with a run."""
    source = tmp_path / "mine"
    (source / "qrels").mkdir(parents=True)
    corpus = {"d0": "a red boat", "d1": "two dogs run", "d2": "a cat"}
    (source / "corpus.jsonl").write_text("".join(f'{{"_id": "{k}", "text": "{v}"}}\n' for k, v in corpus.items()))
    (source / "queries.jsonl").write_text('{"_id": "q0", "text": "boat"}\n{"_id": "q1", "text": "dogs"}\n')
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t1\n")
    ids = np.array(["q0", "q1", *corpus])
    rows = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1]], np.float32)
    np.savez(tmp_path / "own.npz", text_ids=ids, text_vectors=rows)
    shown = say(
        evaluate, str(source), "--split", "test", "-e", f"npz:{tmp_path / 'own.npz'}", "--measure", "hit@1",
        "--out", str(tmp_path / "result"),
    )  # fmt: skip
    assert shown.status == 0, shown.text
    result = load_evaluation(tmp_path / "result")
    assert result.result.mean("t2t", "hit@1") == 1.0 and result.result.protocol.split == "test"
    assert "text → text" in (tmp_path / "result" / "report.html").read_text()
    run = tmp_path / "result" / "run_t2t.parquet"
    again = say(evaluate, str(source), "--split", "test", "--run", f"t2t={run}", "--task", "t2t", "--measure", "hit@1")
    assert again.status == 0 and "100.0" in again.text
    assert "unknown task 't2i'" in say(evaluate, str(source), "-e", f"npz:{tmp_path / 'own.npz'}", "--task", "t2i").text
    # Ids that stand on both sides: one file cannot say whose a vector is, and none is taken for the other.
    (source / "queries.jsonl").write_text('{"_id": "d0", "text": "boat"}\n{"_id": "d1", "text": "dogs"}\n')
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nd0\td1\t1\n")
    assert (
        "queries and documents share ids (e.g. 'd0')"
        in say(evaluate, str(source), "-e", f"npz:{tmp_path}/own.npz").text
    )
    for role, rows in (("query", [[0, 1], [1, 0]]), ("document", [[1, 0], [0, 1], [1, 1]])):
        np.savez(tmp_path / f"{role}.npz", text_ids=np.array(list(corpus)[: len(rows)]), text_vectors=np.float32(rows))
    sides = [option for role in ("query", "document") for option in ("-e", f"{role}=npz:{tmp_path / role}.npz")]
    both = say(evaluate, str(source), *sides, "--measure", "hit@1")
    assert both.status == 0 and "100.0" in both.text
    assert "it is not said which is of the queries" in say(evaluate, str(source), "-e", "a.npz", "-e", "b.npz").text


def test_two_files_with_vectors_of_the_same_side_are_refused(vectors: Path) -> None:
    assert "expected image and text embeddings" in say(evaluate, SCENES, "-e", vectors, "-e", vectors).text


def test_a_run_and_judgements_alone_are_measured(tmp_path: Path) -> None:
    run, qrels = tmp_path / "lr=0.1" / "run.trec", tmp_path / "qrels.trec"
    run.parent.mkdir()
    run.write_text("q1 Q0 a 0 0.9 mine\nq1 Q0 b 0 0.5 mine\nq2 Q0 b 0 0.8 mine\n")
    qrels.write_text("q1 0 b 1\nq2 0 c 1\n")
    out = tmp_path / "result"
    said = say(evaluate, qrels, "--run", run, "--measure", "MRR", "--measure", "mean_rank", "--out", out)
    assert said.status == 0, said.text
    assert "mine" in said.text and "(1 of 2 beyond 2)" in " ".join(said.text.split())
    result = load(out)
    assert result.aggregates == {"run": {"mrr": 0.25, "mean_rank": 2.5}} and result.protocol.recall == "recall"
    assert result.beyond == {"run": {"mean_rank": 1}} and (out / "report.html").is_file()
    assert say(evaluate, qrels, "--run", f"t2i={run}").status == 0
    assert "split needs a collection" in say(evaluate, qrels, "--run", run, "--split", "test").text
    assert "visir compare FIRST SECOND --qrels FILE" in say(evaluate, qrels, "--run", run, "--run", run).text


def test_the_task_of_a_run_is_that_of_its_queries(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("image,caption\n0.jpg,a dog\n1.jpg,a cat\n")
    (tmp_path / "run.trec").write_text("0.jpg#0 Q0 0.jpg 0 0.9 x\n0.jpg#0 Q0 1.jpg 0 0.1 x\n1.jpg#0 Q0 1.jpg 0 0.8 x\n")
    options = ("--images", "none", "--measure", "R@1")
    said = say(evaluate, tmp_path / "c.csv", *options, "--run", tmp_path / "run.trec")
    named = say(evaluate, tmp_path / "c.csv", *options, "--run", f"t2i={tmp_path / 'run.trec'}")
    assert said.status == named.status == 0 and "100.0" in said.text, said.text
    assert "t2i: the ranks of 1 of 2 queries repeat" in " ".join(said.text.split())


def test_the_second_argument_is_the_system(vectors: Path, tmp_path: Path) -> None:
    """A model or the file of a run, as with --model and --run; two systems are refused with the line to type."""
    out, again = tmp_path / "out", tmp_path / "again"
    said = say(evaluate, SCENES, "colours", "--split", "test", "--out", out)
    assert said.status == 0, said.text
    assert say(evaluate, SCENES, "--model", "colours", "--split", "test", "--out", again).status == 0
    assert load(out).aggregates == load(again).aggregates and load(out).system == "colours"
    run = say(evaluate, SCENES, out / "run_t2i.parquet", "--split", "test")
    assert run.status == 0 and "text → image" in run.text
    two = say(evaluate, SCENES, "colours", "--embeddings", vectors)
    assert two.status == 2 and f"visir evaluate {SCENES} SYSTEM" in two.text


def test_shortcuts_and_judgements_are_those_of_the_function(tmp_path: Path) -> None:
    """The verb hands them on: the protocol says what was injected, and the judgements are there to measure by."""
    said = say(evaluate, SCENES, "colours", "--shortcuts", "bits:3?on=captions", "--out", tmp_path / "out")
    assert said.status == 0, said.text
    python = visir.evaluate(SCENES, "colours", shortcuts="bits:3?on=captions")
    assert load(tmp_path / "out").protocol == python.protocol and "bits" in python.protocol.extra["shortcuts"]
    assert "bits" not in str(visir.evaluate(SCENES, "colours").protocol.extra)
