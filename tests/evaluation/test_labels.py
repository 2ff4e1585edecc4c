"""Results by label: from the task into the result, into its folder, and back."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import visir
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.folds import clusters_of
from visir.records import Items, Qrels, Task, TaskFile, TaskSet
from visir.stats import estimate

TEXTS = {"q1": "red", "q2": "two", "q3": "blue", "q4": "three"}
ANSWERS = {"d1": "red", "d2": "three", "d3": "blue"}
RIGHT = ["d1", "d2", "d3", "d2"]
CATEGORY = ["colour", "count", "colour", "count"]


def task(name: str = "t2t", **changes: object) -> Task:
    labels = pa.table({"query_id": list(TEXTS), "category": CATEGORY, "image": ["a", "a", "b", "c"]})
    return Task(
        name,
        Items.of_texts(TEXTS, title="queries"),
        Items.of_texts(ANSWERS, title="documents"),
        {"links": Qrels.of(list(TEXTS), RIGHT)},
        source="toy",
        **{"labels": labels, **changes},  # type: ignore[arg-type]
    )


def source() -> TaskFile:
    judgements = pa.table(
        {"split": [""] * 4, "query_id": list(TEXTS), "document_id": RIGHT, "grade": pa.array([1.0] * 4, pa.float32())}
    )
    whole = task()
    return TaskFile("toy", whole.queries, whole.documents, judgements, labels=whole.labels)


def test_measures_by_label() -> None:
    by = visir.evaluate(task(), "bm25").by("category", ["R@1", "MRR"])
    assert [(row.task, row.label, row.queries) for row in by.rows] == [("t2t", "colour", 2), ("t2t", "count", 2)]
    assert by["colour"].values["hit@1"].mean == 1.0
    assert by["count"].values["hit@1"].mean == 0.5
    columns = ["task", "category", "queries", "items", "hit@1", "hit@1_low", "hit@1_high", "hit@1_chance"]
    assert by.to_arrow().column_names[:8] == columns
    assert "| text → text | colour" in by.to_markdown()
    assert by.plot("mrr") is not None


def test_ranks_beyond_the_answers_are_counted_by_label() -> None:
    """A median or an end of its interval that lies behind the last answer is not known, nor is a mean's interval."""
    texts = {f"q{place}": "a text" for place in range(20)}
    answers = {f"d{place}": "a text" for place in range(22)}
    whole = {"queries": texts, "documents": answers, "qrels": {query: ["d" + query[1:]] for query in texts}}
    whole["queries"] = [
        {"id": query, "text": text, "category": "lost" if place < 8 else "most"}
        for place, (query, text) in enumerate(texts.items())
    ]
    run = {query: {"d20": 2.0, "d21" if place < 12 else "d" + query[1:]: 1.0} for place, query in enumerate(texts)}
    result = visir.evaluate(whole, run, measures=["median_rank", "mean_rank"])
    by = result.by("category", ["median_rank", "mean_rank"])
    lost, most = (by[label].values["median_rank"] for label in ("lost", "most"))
    assert (lost.beyond, lost.last, most.beyond) == (8, 2, 4)
    assert np.isnan(by["most"].values["mean_rank"].high)
    assert "lost: median_rank > 2" in repr(by)
    table = by.to_markdown()
    assert "\\> 2 (8 of 8 beyond 2)" in table
    assert "2.0 (4 of 12 beyond 2) | 2.0 … \\> 2" in table
    assert by.to_arrow()["median_rank_beyond"].to_pylist() == [8, 4]
    assert result.to_arrow()["mean_rank_beyond"].to_pylist() == [12]
    differences = result.differences("category", "mean_rank")
    assert np.isnan(differences["most", "lost"].p)
    assert "Not tested, because ranks beyond the last answer are not known (queries): most (12)" in str(
        differences.to_markdown()
    )


def test_a_query_without_a_label_has_a_row_of_its_own() -> None:
    labels = pa.table({"query_id": ["q1"], "category": ["colour"]})
    by = visir.evaluate(task(labels=labels), "bm25").by("category")
    assert [(row.label, row.queries) for row in by.rows] == [("colour", 1), ("(none)", 3)]


def test_an_unknown_label_is_refused() -> None:
    with pytest.raises(VisirError, match="there is no label 'categories'") as fault:
        visir.evaluate(task(), "bm25").by("categories")
    assert "category" in fault.value.hint
    evaluation = visir.evaluate(task(labels=None), "bm25")
    with pytest.raises(VisirError, match="no query has labels") as fault:
        evaluation.by("category")
    assert fault.value.message.startswith(f"{evaluation.protocol.collection}:")  # the data, not the model
    with pytest.raises(VisirError, match="no query has labels") as fault:
        evaluation.by("language")
    assert "column language" in fault.value.hint


def test_labels_are_saved(tmp_path: Path) -> None:
    evaluation = visir.evaluate(task(), "bm25")
    loaded = visir.open(evaluation.save(tmp_path / "result"))
    assert loaded.labels["t2t"].equals(evaluation.labels["t2t"])
    assert repr(loaded.by("category", "hit@1").rows) == repr(evaluation.by("category", "hit@1").rows)


def test_a_result_without_labels_loads(tmp_path: Path) -> None:
    folder = visir.evaluate(task(labels=None), "bm25").save(tmp_path / "result")
    assert not list(folder.glob("labels_*"))
    assert visir.open(folder).labels == {}


def test_queries_of_one_image_are_one_cluster() -> None:
    result = visir.evaluate(task(), "bm25").result
    clusters = clusters_of(result, "t2t")
    assert clusters is not None and clusters.tolist() == [0, 0, 1, 2]
    both = pa.table({"query_id": list(TEXTS), "image": ["a", "b", "c", None], "group": ["1", "2", "1", None]})
    clusters = clusters_of(visir.evaluate(task(labels=both), "bm25").result, "t2t")
    assert clusters is not None and len(set(clusters.tolist())) == 3 and clusters[0] == clusters[2]


def test_the_task_says_how_ties_count() -> None:
    same = {name: np.ones(2) for name in (*TEXTS, *ANSWERS)}
    vectors = {
        "query": {key: value for key, value in same.items() if key in TEXTS},
        "document": {key: value for key, value in same.items() if key in ANSWERS},
    }
    by_id = visir.evaluate(task(), vectors=vectors)
    strict = visir.evaluate(task(ties="pessimistic"), vectors=vectors)
    assert (by_id["R@1"], strict["R@1"]) == (0.25, 0.0)
    assert (by_id.protocol.ties, strict.protocol.ties) == ("id", "pessimistic")
    assert visir.evaluate(task(ties="pessimistic"), vectors=vectors, ties="optimistic")["R@1"] == 1.0
    with refused(ConfigurationError, code="tasks-count-equal-scores"):
        visir.evaluate([task("one"), task("other", ties="pessimistic")], "bm25")


def test_several_tasks_of_one_source() -> None:
    evaluation = visir.evaluate(TaskSet("both", {"first": source(), "second": source()}), "bm25")
    assert evaluation.tasks == ("first", "second")
    assert evaluation.protocol.collection == "both"
    assert evaluation.by("category")["second", "colour"].queries == 2
    with refused(VisirError, "which task"):
        evaluation.by("category")["colour"]
    assert visir.open(TaskSet("one", {"first": source()})).tasks == ("first",)


def test_the_interval_of_a_share() -> None:
    low, high = estimate([1] * 8 + [0] * 2).ends
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)  # Wilson 1927, by hand
    assert estimate([0, 0, 0]).ends[0] == 0.0
    twice = estimate(np.repeat([1] * 8 + [0] * 2, 2), np.repeat(np.arange(10), 2)).ends
    assert twice[0] < low and twice[1] > high  # the same ten units; t in place of z, error with n - 1
    one = estimate([1, 1, 1, 1], ["a"] * 4).ends
    assert one == estimate([1]).ends
    assert estimate([1, 3, 5]).ends[0] < 3 < estimate([1, 3, 5]).ends[1]
