"""stress, probe, perturb and granularity: names wherever objects, one checked search, folders that are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_toys import make_collection, random_pair

import visir
from refusals import refused
from visir.errors import ConfigurationError, ProtocolError, VisirError
from visir.evaluation.systems import System, VectorSystem
from visir.records import Collection, Gallery, Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.ranks import ranks_of

COLLECTION = make_collection(12, 2)


def runs(folder: Path, *conditions: str, left_out: int = 0) -> Path:
    """A folder of runs, all of which answer every caption with all images, in order."""
    folder.mkdir()
    images, captions = COLLECTION.images["id"].to_pylist(), COLLECTION.captions["id"].to_pylist()
    for condition in conditions:
        asked = captions[left_out:] if condition != "none" else captions
        lines = [f"{query} Q0 {image} {n} {-n} x" for query in asked for n, image in enumerate(images, 1)]
        (folder / f"{condition}.trec").write_text("\n".join(lines))
    return folder


def test_stress_takes_a_source_and_a_folder_of_runs_by_name(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs", "none", "char_swap")
    study = visir.stress(COLLECTION, str(folder), name="mine")
    assert [effect.name for effect in study.effects] == ["char_swap"] and study.system == "mine"
    assert study.source is not None and study.source.images.num_rows == 12
    saved = study.save(tmp_path / "out")
    assert json.loads((saved / "stress.json").read_text())["system"] == "mine"
    assert {"stress.csv", "per_query.parquet", "stress.html"} <= {path.name for path in saved.iterdir()}
    study.save(saved)  # an earlier one is replaced
    assert len(study.to_pandas()) == 2  # all captions, and those that were changed


def test_a_query_without_an_answer_is_noted_once(tmp_path: Path) -> None:
    study = visir.stress(COLLECTION, runs(tmp_path / "runs", "none", "char_swap", left_out=3))
    missing = [note for note in study.notes if "not answered" in note]
    assert missing == ["t2i, char_swap: 3 of 24 queries are not answered; they count as failed"]


class Stranger(System):
    """A system of somebody else, which answers perturbed queries with an image that is not there."""

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        results = []
        for task in tasks:
            queries = task.measured_queries().to_pylist()
            document = "i0" if task.condition == "none" else "elsewhere"
            gallery = task.gallery if document == "i0" else Gallery.unknown()
            run = Run.ranked("x", task.name, queries, [document] * len(queries), [1.0] * len(queries), gallery)
            results.append(SearchResult(run, ranks_of(run, task.judgements().select(queries), ties)))
        return results


def test_the_answers_of_a_stranger_are_checked_in_a_stress_study() -> None:
    with refused(ProtocolError, "1 document", code="not-gallery"):
        visir.stress(COLLECTION, Stranger(), perturbations="char_swap", corruptions="none")


def test_pools_are_cut_once_for_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("visir's own searches need no check of their pools")

    monkeypatch.setattr(VectorSystem, "_check", fail)
    visir.evaluate(COLLECTION, random_pair(COLLECTION))


def test_stress_takes_names_of_perturbations_in_every_form(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs", "none", "char_swap", "extra_char")
    for given in ("all", None, ["char_swap", "extra_char"], "char_swap, extra_char"):
        assert [effect.name for effect in visir.stress(COLLECTION, folder, perturbations=given).effects] == [
            "char_swap",
            "extra_char",
        ]
    with refused(ConfigurationError, code="cannot-asked-perturbed-queries"):
        visir.stress(COLLECTION, 42)
    with pytest.raises(ConfigurationError, match="the estimator is an encoder"):
        visir.stress(COLLECTION, folder, estimator=42)  # type: ignore[arg-type]


def test_perturb_takes_a_source_by_name_and_says_first_what_is_wrong() -> None:
    perturbed = visir.perturb("scenes:12?size=64", "char_swap", split="test")
    assert perturbed.splits == ("test",) and perturbed.caption_facts is not None
    with refused(VisirError, "perturbation", "char_swop", code="unknown-name"):
        visir.perturb("nowhere at all", "char_swop")


def test_granularity_takes_names_and_is_written(tmp_path: Path) -> None:
    study = visir.granularity("scenes:12?size=64", "scenes:12?size=64&seed=0", profiles="strict", split="test")
    assert study.profiles == ("strict",)
    saved = study.save(tmp_path / "granularity")
    assert {"granularity.json", "granularity.csv", "changes.csv", "captions.parquet", "granularity.html"} <= {
        path.name for path in saved.iterdir()
    }
    with refused(ConfigurationError, "unknown profile", "strickt", hint=False):
        visir.granularity("scenes:12?size=64", profiles="strickt")  # type: ignore[arg-type]


def test_what_is_no_collection_is_refused_by_name() -> None:
    task = replace(COLLECTION.task("t2i"), name="t2i")
    assert isinstance(COLLECTION, Collection)
    with refused(ConfigurationError, "stress", "Task", code="goes-images-captions"):
        visir.stress(task, "bow")
