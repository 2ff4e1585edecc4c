"""Data sets of the package ir_datasets as tasks, by the package itself over files of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import visir
from refusals import refused
from visir.errors import CollectionError

ir_datasets: Any = pytest.importorskip("ir_datasets")


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "docs.tsv").write_text("d1\ta red boat\nd2\ttwo dogs\nd3\ta house\n")
    (tmp_path / "queries.tsv").write_text("q1\tboat\nq2\tdogs\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 2\nq1 0 d3 -1\nq2 0 d2 1\n")
    paths = {"docs_tsv": "docs.tsv", "queries_tsv": "queries.tsv", "qrels_trec": "qrels.txt"}
    made = ir_datasets.create_dataset(**{name: str(tmp_path / file) for name, file in paths.items()})
    ir_datasets.registry.register("visir-test/dev", made)
    docs_alone = ir_datasets.create_dataset(docs_tsv=str(tmp_path / "docs.tsv"))
    ir_datasets.registry.register("visir-test", docs_alone)
    yield "visir-test/dev"
    for name in ("visir-test/dev", "visir-test"):
        del ir_datasets.registry._registered[name]


def test_a_data_set_is_a_task(registered: str) -> None:
    task = visir.open(f"ir_datasets:{registered}")
    assert task.queries.texts.to_pylist() == ["boat", "dogs"]
    assert task.documents.ids.to_pylist() == ["d1", "d2", "d3"]
    assert task.documents.texts.to_pylist() == ["a red boat", "two dogs", "a house"]
    [name] = task.tasks
    judged = task.qrels(name)
    assert list(zip(judged.documents.to_pylist(), judged.grades.tolist(), strict=True)) == [
        ("d1", 2.0),
        ("d3", 0.0),
        ("d2", 1.0),
    ]
    assert task.ties == "trec"


def test_it_is_evaluated_like_any_other(registered: str) -> None:
    done = visir.evaluate(f"ir_datasets:{registered}", "bm25")
    assert done.result.mean(done.tasks[0], "hit@1") == 1.0


def test_what_is_no_task_is_refused_with_what_is(registered: str) -> None:
    with refused(CollectionError, "visir-test/devv", code="no-such-task", hint="visir-test/dev"):
        visir.open("ir_datasets:visir-test/devv")
    with refused(CollectionError, "no queries and no qrels", code="no-whole-task", hint="visir-test/dev"):
        visir.open("ir_datasets:visir-test")
