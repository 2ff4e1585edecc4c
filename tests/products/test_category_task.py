"""The task: which categories ask, and what is right, under both readings of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import visir
from refusals import refused
from visir.encoders import load
from visir.errors import CollectionError, ConfigurationError
from visir.evaluation.systems.bm25 import Bm25System
from visir.products.evaluation import evaluate, evaluate_task
from visir.products.generated import generate_catalogue
from visir.products.systems import TitleBm25, text_zero_shot
from visir.products.task import SETTINGS, CatalogueTasks, CategoryTask, Split, category_task, drawn_categories, folds
from visir.records import Catalogue, Items, Qrels, Task

SMALL = Catalogue.of(
    "small",
    ids=["p1", "p2", "p3", "p4"],
    paths=[["Shoes", "Accessories"], ["Cameras", "Accessories"], ["Watches", "Watches"], ["Shoes", "Boots"]],
)
TEST = Split(np.array([0, 0, 0, 1], bool), np.zeros(4, bool), np.array([1, 1, 1, 0], bool), "by hand")


def pairs(task: CategoryTask) -> dict[str, list[str]]:
    documents, ends = task.judgements().documents.to_pylist(), task.judgements().offsets
    return {one: documents[ends[i] : ends[i + 1]] for i, one in enumerate(task.judgements().queries.to_pylist())}


def test_by_id_namesakes_are_two_queries_with_one_text() -> None:
    task = category_task(SMALL, TEST, "specific")
    # Boots has no test product, so it asks nothing, and p4 is no candidate.
    assert pairs(task) == {"Cameras > Accessories": ["p2"], "Shoes > Accessories": ["p1"], "Watches > Watches": ["p3"]}
    assert task.names == ["Accessories", "Accessories", "Watches"]
    assert task.gallery.ids is not None and task.gallery.ids.to_pylist() == ["p1", "p2", "p3"]


def test_by_name_they_are_one_and_right_with_the_union() -> None:
    task = category_task(SMALL, TEST, "all", by="name")
    # "Watches" stands twice on the path of p3, which is relevant once.
    assert pairs(task) == {"Accessories": ["p1", "p2"], "Cameras": ["p2"], "Shoes": ["p1"], "Watches": ["p3"]}
    assert task.names == ["Accessories", "Cameras", "Shoes", "Watches"]
    assert (
        "by name" in evaluate_task(TitleBm25(), task).result.protocol.relevance and "by name" in task.judgements().name
    )


def test_drawn_each_product_is_right_once() -> None:
    task = category_task(SMALL, TEST, "all", relevance="drawn", seed=1)
    drawn = [task.tree.ids[row] for row in drawn_categories(SMALL, "all", 1)[:3]]
    wanted: dict[str, list[str]] = {}
    for product, category in zip(["p1", "p2", "p3"], drawn, strict=True):
        wanted.setdefault(category, []).append(product)
    assert pairs(task) == wanted


def test_protocols_of_different_tasks_differ() -> None:
    tasks = [category_task(SMALL, TEST, *rest) for rest in (("all",), ("general",))]
    tasks += [category_task(SMALL, TEST, "all", by="name"), category_task(SMALL, TEST, "all", relevance="drawn")]
    assert len({evaluate_task(TitleBm25(), task).result.protocol.fingerprint for task in tasks}) == 4


def test_unknown_options() -> None:
    with refused(ConfigurationError, "names", code="unknown-name"):
        category_task(SMALL, TEST, "all", by="names")  # type: ignore[arg-type]
    with refused(ConfigurationError, "relevance", "paths", code="unknown-name"):
        category_task(SMALL, TEST, "all", relevance="paths")  # type: ignore[arg-type]


def test_a_catalogue_is_a_source_of_tasks() -> None:
    catalogue = generate_catalogue(60).catalogue
    cut = folds(catalogue, 2)
    source = CatalogueTasks(catalogue, cut)
    assert source.tasks == ("all", "general", "specific") and source.splits == tuple(fold.name for fold in cut)
    result = visir.evaluate(source, Bm25System(), split=cut[1].name, measures=["rprecision"]).result
    trials = evaluate(catalogue, [TitleBm25()], cut[1:]).trials
    for setting in SETTINGS:
        (trial,) = trials["BM25", setting]
        assert result.mean(setting, "rprecision") == trial.mean("rprecision")
        assert (trial.task.queries.title, trial.task.documents.title) == ("categories", "products")
        assert (trial.task.queries.modality, trial.task.documents.modality) == ("text", "text+image")
        assert list(trial.result.per_query) == ["category"]
    assert len(source.task("general").documents) == 60
    with refused(CollectionError, "fold 3", code="unknown-split"):
        source.split("fold 3")
    with refused(ConfigurationError, "BM25", "t2t", code="answers-categories-products"):
        items = Items.of_texts({"a": "x"})
        visir.evaluate(Task("t2t", items, items, {"links": Qrels.of(["a"], ["a"])}), TitleBm25())


def test_any_encoder_searches_titles_or_pictures(tmp_path: Path) -> None:
    catalogue = generate_catalogue(30, size=64).catalogue
    store = visir.encoders.Store(tmp_path)
    titles = CatalogueTasks(catalogue, documents="titles")
    result = visir.evaluate(titles, load("bow:4096"), ["general"], store=store, measures=["rprecision"]).result
    everything = Split(np.zeros(30, bool), np.zeros(30, bool), np.ones(30, bool))
    trial = evaluate(catalogue, [text_zero_shot(load("bow:4096"), catalogue, store=store)], [everything]).trials
    assert result.mean("general", "rprecision") == trial["bow:4096, titles", "general"][0].mean("rprecision")
    assert result.protocol.galleries["general"].startswith("30 titles · all test products")
    pictures = CatalogueTasks(catalogue, documents="pictures").task("general").documents
    assert (pictures.modality, pictures.title) == ("image", "pictures")
    with refused(ConfigurationError, "title", code="unknown-documents"):
        CatalogueTasks(catalogue, documents="title")  # type: ignore[arg-type]
    with refused(ConfigurationError, "small", "picture", code="no-product"):
        CatalogueTasks(SMALL, documents="pictures")
