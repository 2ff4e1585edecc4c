"""Labels of queries, and several tasks of one source."""

import pyarrow as pa
import pytest

from refusals import refused
from visir.errors import CollectionError
from visir.records import Items, Qrels, Task, TaskFile, TaskSet

QUERIES = Items.of_texts({"q1": "a red boat", "q2": "two dogs", "q3": "a cat"}, title="queries")
DOCUMENTS = Items.of_texts({"d1": "the boat", "d2": "dogs"}, title="documents")
JUDGED = pa.table(
    {
        "split": ["test", "dev", "dev"],
        "query_id": ["q1", "q2", "q3"],
        "document_id": ["d1", "d2", "d2"],
        "grade": pa.array([1, 1, 1], pa.float32()),
    }
)
LABELS = pa.table({"query_id": ["q3", "q1"], "category": ["animal", "colour"]})


def task_file(**changes: object) -> TaskFile:
    return TaskFile("toy", QUERIES, DOCUMENTS, JUDGED, labels=LABELS, **changes)  # type: ignore[arg-type]


def test_labels_are_in_the_order_of_the_queries() -> None:
    task = task_file(ties="pessimistic").task("t2t")
    assert task.labels is not None
    assert task.labels.to_pylist() == [
        {"query_id": "q1", "category": "colour"},
        {"query_id": "q2", "category": None},
        {"query_id": "q3", "category": "animal"},
    ]
    assert task.ties == "pessimistic"
    assert "labels: category" in repr(task)


def test_labels_follow_a_split() -> None:
    dev = task_file().split("dev")
    assert dev.labels is not None and dev.labels["category"].to_pylist() == [None, "animal"]
    assert dev.describe()["labels"] == ["category"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"query_id": ["q9"], "category": ["x"]}, "labels name the query 'q9', which is not in the task"),
        ({"query_id": ["q1", "q1"], "category": ["x", "y"]}, "a query stands twice"),
        ({"query": ["q1"], "category": ["x"]}, "labels have the columns query, category"),
        ({"query_id": ["q1"]}, "labels have the columns query_id"),
    ],
)
def test_faulty_labels_are_refused(labels: dict[str, list[str]], message: str) -> None:
    qrels = {"links": Qrels.of(["q1"], ["d1"])}
    with pytest.raises(CollectionError, match=message):
        Task("t2t", QUERIES, DOCUMENTS, qrels, labels=labels)  # type: ignore[arg-type]


def test_a_set_has_tasks_by_name() -> None:
    other = TaskFile("other", QUERIES, DOCUMENTS, JUDGED.slice(0, 1))
    tasks = TaskSet("both", {"first": task_file(), "second": other})
    assert tasks.tasks == ("first", "second")
    assert tasks.splits == ("dev", "test")
    assert tasks.split("dev").tasks == ("first",)
    assert tasks.split("all") is tasks
    task = tasks.split("test").task("second")
    assert (task.name, task.source, task.split) == ("second", "both", "test")
    assert len(task.queries) == 1
    assert tasks.fingerprint != TaskSet("both", {"first": task_file()}).fingerprint
    assert repr(tasks).startswith("TaskSet(both: 2 tasks)\n  first: 3 queries, 2 documents")


def test_a_set_refuses_what_it_has_not() -> None:
    tasks = TaskSet("both", {"first": task_file()})
    with refused(CollectionError, "second", code="unknown-task"):
        tasks.task("second")
    with refused(CollectionError, "train", code="unknown-split"):
        tasks.split("train")
    with refused(CollectionError, code="no-tasks", hint=False):
        TaskSet("none", {})
    with refused(CollectionError, code="cannot-name-task"):
        TaskSet("bad", {"a/b": task_file()})
