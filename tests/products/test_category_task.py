"""The task: which categories ask, and what is right, under both readings of each."""

from __future__ import annotations

import numpy as np
import pytest

from visir.errors import ConfigurationError
from visir.products.pairs import drawn_categories
from visir.products.split import Split
from visir.products.task import Task, task_of
from visir.records import Catalogue

SMALL = Catalogue.of(
    "small",
    ids=["p1", "p2", "p3", "p4"],
    paths=[["Shoes", "Accessories"], ["Cameras", "Accessories"], ["Watches", "Watches"], ["Shoes", "Boots"]],
)
TEST = Split(np.array([0, 0, 0, 1], bool), np.zeros(4, bool), np.array([1, 1, 1, 0], bool), "by hand")


def pairs(task: Task) -> dict[str, list[str]]:
    documents, ends = task.qrels.documents.to_pylist(), task.qrels.offsets
    return {one: documents[ends[i] : ends[i + 1]] for i, one in enumerate(task.qrels.queries.to_pylist())}


def test_by_id_namesakes_are_two_queries_with_one_text() -> None:
    task = task_of(SMALL, TEST, "specific")
    # Boots has no test product, so it asks nothing, and p4 is no candidate.
    assert pairs(task) == {"Cameras > Accessories": ["p2"], "Shoes > Accessories": ["p1"], "Watches > Watches": ["p3"]}
    assert task.names == ["Accessories", "Accessories", "Watches"]
    assert task.gallery.ids is not None and task.gallery.ids.to_pylist() == ["p1", "p2", "p3"]


def test_by_name_they_are_one_and_right_with_the_union() -> None:
    task = task_of(SMALL, TEST, "all", by="name")
    # "Watches" stands twice on the path of p3, which is relevant once.
    assert pairs(task) == {"Accessories": ["p1", "p2"], "Cameras": ["p2"], "Shoes": ["p1"], "Watches": ["p3"]}
    assert task.names == ["Accessories", "Cameras", "Shoes", "Watches"]
    assert "by name" in task.protocol("cosine").queries["t2i"] and "by name" in task.qrels.name


def test_drawn_each_product_is_right_once() -> None:
    task = task_of(SMALL, TEST, "all", relevance="drawn", seed=1)
    drawn = [task.tree.ids[row] for row in drawn_categories(SMALL, "all", 1)[:3]]
    wanted: dict[str, list[str]] = {}
    for product, category in zip(["p1", "p2", "p3"], drawn, strict=True):
        wanted.setdefault(category, []).append(product)
    assert pairs(task) == wanted


def test_protocols_of_different_tasks_differ() -> None:
    tasks = [task_of(SMALL, TEST, *rest) for rest in (("all",), ("general",))]
    tasks += [task_of(SMALL, TEST, "all", by="name"), task_of(SMALL, TEST, "all", relevance="drawn")]
    assert len({one.protocol("cosine").fingerprint for one in tasks}) == 4


def test_unknown_options() -> None:
    with pytest.raises(ConfigurationError, match="unknown by 'names'"):
        task_of(SMALL, TEST, "all", by="names")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="unknown relevance 'paths'"):
        task_of(SMALL, TEST, "all", relevance="paths")  # type: ignore[arg-type]
