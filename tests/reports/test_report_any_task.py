"""The page of an evaluation whose tasks are not those of a collection: texts and images on either side, and pools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from test_html import Page

from visir.evaluation import evaluate
from visir.evaluation.results import Evaluation
from visir.records import Items, Pools, Qrels, Run, Task
from visir.reports import evaluation_report, queries_table
from visir.reports.plots import hit_curves, rank_distribution, to_svg
from visir.reports.words import sides, task_words

COLOURS = {"a": "crimson", "b": "seagreen", "c": "navy"}


def pictured(folder: Path, texts: list[str] | None = None, *, ids: str = "abc", title: str = "photos") -> Items:
    """The coloured pictures of these ids, with texts where they are given."""
    for name in ids:
        Image.new("RGB", (40, 30), COLOURS[name.lower()]).save(folder / f"{name}.png")
    places = pa.table({"path": [f"{name}.png" for name in ids], "archive": pa.nulls(len(ids), pa.string())})
    return Items(list(ids), texts, places, folder, title, "shop")  # type: ignore[arg-type]


def run(task: Task, answers: dict[str, str]) -> Run:
    """A run that answers each query with these documents, in this order."""
    queries = [query for query, documents in answers.items() for _ in documents]
    documents = [document for documents in answers.values() for document in documents]
    scores = [1 - 0.1 * rank for documents in answers.values() for rank in range(len(documents))]
    return Run.ranked("mine", task.name, queries, documents, scores, task.gallery)


def evaluated(task: Task, answers: dict[str, str]) -> Evaluation:
    return evaluate(task, {task.name: run(task, answers)}, similarity="cosine")


@pytest.fixture
def questions() -> Task:
    """Texts search texts."""
    queries = Items.of_texts({"q": "which boat is red", "r": "two <b>dogs</b>"}, title="questions")
    documents = Items.of_texts({"x": "a red boat", "y": "dogs play", "z": "nothing"}, title="passages")
    return Task("t2t", queries, documents, {"gold": Qrels.of(["q", "r"], ["x", "y"], name="gold")}, source="forum")


@pytest.fixture
def composed(tmp_path: Path) -> Task:
    """A photo and how to change it search photos that have titles too."""
    queries = pictured(tmp_path, ["but green", "but blue"], ids="AB", title="changes")
    documents = pictured(tmp_path, ["red shoe", "green shoe", "blue shoe"], title="products")
    return Task("composed", queries, documents, {"links": Qrels.of(["A", "B"], ["b", "c"])}, source="shop")


def shown(tmp_path: Path, task: Task, made: Evaluation) -> tuple[str, Page]:
    path = evaluation_report(made, source=task).write(tmp_path / "report.html")
    text = path.read_text("utf-8")
    return text, Page(text)


def test_texts_search_texts(questions: Task, tmp_path: Path) -> None:
    made = evaluated(questions, {"q": "xyz", "r": "zyx"})
    text, page = shown(tmp_path, questions, made)
    words = " ".join("".join(page.text).split())
    assert "text → text" in words and "50.0 % of the questions have a right passage first." in words
    assert "“two <b>dogs</b>”" in words and "<b>dogs" not in text
    assert "first right answer at rank 2 of 3" in words and "rank 2 · 0.900 dogs play" in words
    assert "The judgements called “gold”" in words
    assert "Right passage" in words and page.all("img") == []
    table = queries_table(made.result, made.runs["t2t"], questions)
    assert table.caption == "Worst queries, text → text"
    assert table.texts() == [["two <b>dogs</b>", "2", "nothing", "dogs play"]]


def test_a_picture_with_a_text_searches_pictures_with_texts(composed: Task, tmp_path: Path) -> None:
    made = evaluated(composed, {"A": "bac", "B": "bac"})
    text, page = shown(tmp_path, composed, made)
    words = " ".join("".join(page.text).split())
    assert "50.0 % of the changes have a right product first." in words
    assert "The pairs that the task links" in words  # no caption, and no image that it was written for
    assert "“but blue”" in words and "✓ right: rank 3 · 0.800 blue shoe" in words
    # The picture of a query, its right answer, and the three that were retrieved; B is the worst and a near miss.
    assert len(page.all("img")) == 3 * (1 + 1 + 3)
    assert {image["alt"] for image in page.all("img")} >= {"but green", "but blue", "red shoe"}
    assert "R@1" in text and "collection <b>shop</b>" in text


def test_pictures_search_pictures_and_names_may_be_any(tmp_path: Path) -> None:
    photos = pictured(tmp_path, ids="abc")
    task = Task("same shoe", photos, photos, {"links": Qrels.of(["a", "b"], ["b", "a"])}, source="shop")
    _, page = shown(tmp_path, task, evaluated(task, {"a": "bc", "b": "ca"}))
    words = " ".join("".join(page.text).split())
    assert "same shoe" in words and "50.0 % of the photos have a right photo first." in words
    # A picture without words is called by its id.
    assert {image["alt"] for image in page.all("img")} == {"a", "b", "c"}


def test_with_pools_ranks_and_chance_are_of_the_pool(questions: Task, tmp_path: Path) -> None:
    task = replace(questions, pools=Pools.of(["q", "q", "r", "r"], ["x", "z", "y", "z"]))
    _, page = shown(tmp_path, task, evaluated(task, {"q": "xz", "r": "zy"}))
    words = " ".join("".join(page.text).split())
    assert "first right answer at rank 2 of 2" in words
    assert "A random order would reach 50 %." in words  # one of two candidates


def test_many_tasks_are_drawn_together() -> None:
    ranks = {f"task {number}": np.array([1.0, 2.0 + number, np.inf]) for number in range(8)}
    for drawn in (hit_curves(ranks), rank_distribution(ranks)):
        assert all(f">{task}</text>" in to_svg(drawn) for task in ranks)


def test_names_of_tasks_and_sides(questions: Task) -> None:
    assert [task_words(name) for name in ("t2i", "i2i", "it2t", "both", "category", "2", "b2b")] == [
        *("text → image", "image → image", "image + text → text", "both tasks", "category", "2", "b2b"),
    ]
    protocol = evaluated(questions, {"q": "xyz", "r": "zyx"}).result.protocol
    assert sides(protocol, "t2t") == ("questions", "passages")
    folded = protocol.changed(galleries={"t2i": "5 × 1,000 images · all images · 0123"}, queries={})
    assert sides(folded, "t2i") == ("captions", "images")
    assert sides(folded, "unknown") == ("queries", "answers")
