"""A result comes back identical, and nothing half written or altered passes for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_toys import make_collection, random_pair

from manifests import write_json
from refusals import refused
from visir.errors import VisirError
from visir.evaluation.compare import compare
from visir.evaluation.evaluate import evaluate
from visir.evaluation.results import Evaluation, is_result, load, load_evaluation, save
from visir.files import read_json
from visir.records import Gallery

COLLECTION = make_collection(20, 2)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(COLLECTION, random_pair(COLLECTION), estimator="self", conditions={"extra": {"shortcut": 0.5}})


def test_round_trip(evaluation: Evaluation, tmp_path: Path) -> None:
    save(evaluation, tmp_path / "out")
    again = load_evaluation(tmp_path / "out")
    result, back = evaluation.result, again.result
    assert back.to_dict() == result.to_dict()
    assert back.protocol == result.protocol
    assert back.protocol.fingerprint == result.protocol.fingerprint
    for task in result.tasks:
        assert back.per_query[task].equals(result.per_query[task])
        mine, theirs = evaluation.runs[task], again.runs[task]
        assert theirs.to_arrow().equals(mine.to_arrow())
        assert theirs.gallery.fingerprint == mine.gallery.fingerprint
        assert (theirs.name, theirs.depth, theirs.provenance) == (mine.name, mine.depth, mine.provenance)
        assert again.qrels[task].to_dict() == evaluation.qrels[task].to_dict()
    assert again.captions is not None
    assert again.captions.equals(evaluation.captions)
    assert all(one.p == 1 for one in compare([result, back]).differences)
    assert load(tmp_path / "out" / "result.json").to_dict() == result.to_dict()


def test_the_loaded_runs_give_the_same_numbers(evaluation: Evaluation, tmp_path: Path) -> None:
    again = load_evaluation(save(evaluation, tmp_path / "out"))
    assert evaluate(COLLECTION, again.runs, estimator="self").result.aggregates == evaluation.result.aggregates


def test_leftovers_of_an_earlier_result_go_and_other_files_stay(evaluation: Evaluation, tmp_path: Path) -> None:
    save(evaluation, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    one_way = evaluate(COLLECTION, random_pair(COLLECTION), tasks=["t2i"])
    save(one_way.result, tmp_path, replace=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        "captions.parquet",
        "notes.txt",
        "per_query_t2i.parquet",
        "result.json",
        "visir.json",
    }
    assert load_evaluation(tmp_path).runs == {}


def test_an_unfinished_folder_is_no_result(evaluation: Evaluation, tmp_path: Path) -> None:
    save(evaluation, tmp_path)
    assert is_result(tmp_path)
    (tmp_path / "result.json").unlink()
    assert not is_result(tmp_path)
    with refused(VisirError, "result.json"):
        load(tmp_path)


def test_what_was_altered_or_lost_is_named(evaluation: Evaluation, tmp_path: Path) -> None:
    save(evaluation, tmp_path)
    content = read_json(tmp_path / "result.json")
    altered = content | {"protocol": content["protocol"] | {"recall": "recall"}}
    write_json(tmp_path / "result.json", altered)
    with pytest.raises(VisirError, match=r"result\.json: has .* bytes"):
        load_evaluation(tmp_path)
    (tmp_path / "visir.json").unlink()  # a result may travel without it, and knows its protocol still
    with refused(VisirError, code="protocol-altered-after-evaluation"):
        load(tmp_path)
    write_json(tmp_path / "result.json", content)
    (tmp_path / "per_query_i2t.parquet").write_bytes(b"PAR1 cut")
    with refused(VisirError, "per_query_i2t.parquet", code="not-readable-parquet-file"):
        load(tmp_path)
    (tmp_path / "per_query_i2t.parquet").unlink()
    with refused(VisirError, "per_query_i2t.parquet", code="belongs-result-missing"):
        load(tmp_path)
    write_json(tmp_path / "result.json", {"something": "else"})
    with refused(VisirError, code="not-result-visir-evaluate"):
        load(tmp_path)


def test_a_stated_gallery_survives(tmp_path: Path) -> None:
    evaluation = evaluate(COLLECTION, random_pair(COLLECTION), tasks=["t2i"])
    stated = Gallery.stated("image", 20, "by their word")
    runs = {"t2i": replace(evaluation.runs["t2i"], gallery=stated)}
    again = load_evaluation(save(replace(evaluation, runs=runs), tmp_path))  # type: ignore[arg-type]
    gallery = again.runs["t2i"].gallery
    assert (gallery.ids, gallery.size, gallery.description) == (None, 20, "by their word")


@pytest.mark.parametrize("wrong", [None, [], {}, "x", -1, 1e99], ids=repr)
def test_a_result_with_a_wrong_value_is_refused_in_words(evaluation: Evaluation, tmp_path: Path, wrong: object) -> None:
    """Each value of `result.json` in turn: refused by name, or read."""
    folder = save(evaluation, tmp_path / "out")
    content = read_json(folder / "result.json")
    caught = 0
    for name in content:
        write_json(folder / "result.json", {**content, name: wrong})
        try:
            load_evaluation(folder)
        except VisirError as fault:
            assert "result.json" in fault.message
            caught += 1
    assert caught >= 3
