"""Measures of choices: all first, item and group scores, chance; against independent code on random cases."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import visir
from visir.evaluation.measures import measure
from visir.records import Items, Pools, Qrels, Ranks, Task


def ranks(*positives: list[int]) -> Ranks:
    flat = [rank for entry in positives for rank in entry]
    offsets = np.cumsum([0, *map(len, positives)])
    queries = pa.array([f"q{number}" for number in range(len(positives))])
    return Ranks(queries, offsets, np.array(flat, np.int64), np.ones(len(flat), np.float32), None, 5)


def test_all_first_by_hand() -> None:
    table = measure(ranks([1], [2], [1, 2], [1, 3], [], [1, 2, 0]), ["all_first"])
    assert table["all_first"].to_pylist() == [1, 0, 1, 0, 0, 0]


def pairs_task(items: int) -> list[Task]:
    """Winoground's layout: two images and two captions for each item, both directions."""
    numbers = range(items)
    images = [f"{item}/image_{side}" for item in numbers for side in (0, 1)]
    captions = [f"{item}/caption_{side}" for item in numbers for side in (0, 1)]
    sides = {
        "i2t": (images, captions, "images", "captions"),
        "t2i": (captions, images, "captions", "images"),
    }
    tasks = []
    for name, (queries, documents, *titles) in sides.items():
        both = [documents[2 * (row // 2) + side] for row in range(2 * items) for side in (0, 1)]
        tasks.append(
            Task(
                name,
                Items.of_texts({key: key for key in queries}, title=titles[0]),
                Items.of_texts({key: key for key in documents}, title=titles[1]),
                {"links": Qrels.of(queries, documents)},
                Pools.of([query for query in queries for _ in (0, 1)], both),
                source="pairs",
                labels=pa.table({"query_id": queries, "group": [str(row // 2) for row in range(2 * items)]}),
                ties="pessimistic",
                measures=("all_first", "item_score", "group_score"),
            )
        )
    return tasks


def runs_of(scores: np.ndarray) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of (item, caption, image) as runs."""
    runs: dict[str, dict[str, dict[str, float]]] = {"i2t": {}, "t2i": {}}
    for item, caption, image in itertools.product(range(len(scores)), (0, 1), (0, 1)):
        value = float(scores[item, caption, image])
        text, picture = f"{item}/caption_{caption}", f"{item}/image_{image}"
        runs["i2t"].setdefault(picture, {})[text] = value
        runs["t2i"].setdefault(text, {})[picture] = value
    return runs


def test_winoground_scores_on_random_cases() -> None:
    scores = np.random.default_rng(0).integers(0, 4, (10_000, 2, 2)).astype(float)  # many ties
    evaluation = visir.evaluate(pairs_task(len(scores)), runs_of(scores))
    c0_i0, c0_i1, c1_i0, c1_i1 = (scores[:, c, i] for c in (0, 1) for i in (0, 1))
    text = (c0_i0 > c1_i0) & (c1_i1 > c0_i1)
    image = (c0_i0 > c0_i1) & (c1_i1 > c1_i0)
    assert evaluation["i2t item_score"] == text.mean() == evaluation["i2t text_score"]
    assert evaluation["t2i item_score"] == image.mean() == evaluation["t2i image_score"]
    assert evaluation["i2t group_score"] == (text & image).mean() == evaluation["t2i group_score"]
    single = np.concatenate([c0_i0 > c1_i0, c1_i1 > c0_i1])
    assert evaluation["i2t all_first"] == pytest.approx(single.mean())


def test_all_first_on_random_cases() -> None:
    rng = np.random.default_rng(1)
    queries, documents, right, judged, run = [], [], [], [], {}
    expected = []
    for number in range(10_000):
        size = int(rng.integers(2, 6))
        good = int(rng.integers(1, size))
        scores = rng.integers(0, 6, size).astype(float)
        names = [f"{number}/{place}" for place in range(size)]
        queries += [f"q{number:05}"] * size
        documents += names
        judged += [f"q{number:05}"] * good
        right += names[:good]
        run[f"q{number:05}"] = dict(zip(names, scores.tolist(), strict=True))
        expected.append(scores[:good].min() > scores[good:].max())
    task = Task(
        "choice",
        Items.of_texts({name: name for name in run}, title="queries"),
        Items.of_texts({name: name for name in documents}, title="documents"),
        {"links": Qrels.of(judged, right)},
        Pools.of(queries, documents),
        ties="pessimistic",
        measures=("all_first",),
    )
    evaluation = visir.evaluate(task, run)
    assert evaluation.measures == ("all_first",)
    assert evaluation.values("choice", "all_first").tolist() == [float(value) for value in expected]


def test_chance_is_exact() -> None:
    evaluation = visir.evaluate(pairs_task(3), runs_of(np.random.default_rng(0).random((3, 2, 2))))
    chance = {task: {name: table[name][0].as_py() for name in table.column_names[1:]}
              for task, table in evaluation.result.chance.items()}  # fmt: skip
    assert chance["i2t"] == {"all_first": 0.5, "item_score": 0.25, "group_score": pytest.approx(1 / 6)}
    assert chance["t2i"] == chance["i2t"]


def test_chance_against_simulation() -> None:
    scores = np.random.default_rng(3).random((40_000, 2, 2))
    evaluation = visir.evaluate(pairs_task(len(scores)), runs_of(scores))
    for task in ("i2t", "t2i"):
        for name in evaluation.measures:
            expected = evaluation.result.chance[task][name].to_numpy().mean()
            assert evaluation.mean(task, name) == pytest.approx(expected, abs=0.01)


def test_chance_of_the_text_only_task() -> None:
    """Two right captions and a wrong one: one score of the right pair above two others, 1/3."""
    texts = {"p1": "a", "p2": "b", "n": "c"}
    items = Items.of_texts(texts, title="captions")
    task = Task(
        "t2t",
        items.select(["p1", "p2"]),
        items,
        {"links": Qrels.of(["p1", "p2"], ["p2", "p1"])},
        Pools.of(["p1", "p1", "p2", "p2"], ["p2", "n", "p1", "n"]),
        labels=pa.table({"query_id": ["p1", "p2"], "group": ["0", "0"]}),
        measures=("all_first", "item_score"),
    )
    evaluation = visir.evaluate(task, {"p1": {"p2": 2.0, "n": 1.0}, "p2": {"p1": 2.0, "n": 3.0}})
    assert (evaluation["all_first"], evaluation["item_score"]) == (0.5, 0.0)
    table = evaluation.result.chance["t2t"]
    assert table["all_first"].to_pylist() == [0.5, 0.5]
    assert table["item_score"].to_pylist() == [pytest.approx(1 / 3)] * 2


def test_one_direction_has_no_group_score(tmp_path: Path) -> None:
    tasks = pairs_task(3)
    runs = runs_of(np.random.default_rng(0).random((3, 2, 2)))
    evaluation = visir.evaluate(tasks, {"i2t": runs["i2t"]})
    assert evaluation.measures == ("all_first", "item_score")
    loaded = visir.open(evaluation.save(tmp_path / "result"))
    assert loaded.result.chance["i2t"].equals(evaluation.result.chance["i2t"])


def test_two_systems_are_compared_over_items() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random((200, 2, 2))
    better = scores + np.eye(2) * 0.3
    results = [visir.evaluate(pairs_task(200), runs_of(values)) for values in (scores, better)]
    comparison = visir.compare(*results)
    assert [entry.measure for entry in comparison.differences[:3]] == ["all_first", "item_score", "group_score"]
    assert "images and items" in comparison.how and not comparison.notes
    assert comparison[comparison.systems[1], "i2t all_first"].difference > 0.1
    assert comparison[comparison.systems[1], "t2i group_score"].p_corrected < 0.001


def test_mcnemar_is_exact() -> None:
    from scipy.stats import binomtest

    from visir.stats.differences import randomisation

    differences = np.array([1.0] * 40 + [-1.0] * 22 + [0.0] * 100)
    outcome = randomisation(differences)
    assert outcome.p == pytest.approx(binomtest(40, 62).pvalue)
    assert outcome.how.endswith("exact")
    assert randomisation([1, 1, 1, -1]).p == pytest.approx(10 / 16)  # by hand: |sum| >= 2 in 10 of 16


def test_a_table_says_what_chance_reaches() -> None:
    evaluation = visir.evaluate(pairs_task(30), runs_of(np.random.default_rng(2).random((30, 2, 2))))
    text = evaluation.to_markdown()
    assert "image → text, chance" in text and "16.7" in text
    by = evaluation.by("group")
    assert by.rows[0].queries == 2 and by.rows[0].items == 1
    assert by.rows[0].values["group_score"].chance == pytest.approx(1 / 6)


def test_a_broken_picture_takes_its_item_along() -> None:
    tasks = pairs_task(3)
    images = {f"{item}/image_{side}": np.ones(2) for item in range(3) for side in (0, 1)}
    texts = {f"{item}/caption_{side}": np.array([1 + item, side]) for item in range(3) for side in (0, 1)}
    places = pa.table({"path": list(images), "archive": pa.nulls(6, pa.string())})
    pictured = Items(pa.array(list(images)), None, places, title="images")
    tasks = [replace(tasks[0], queries=pictured), replace(tasks[1], documents=pictured)]
    del images["1/image_0"]
    evaluation = visir.evaluate(tasks, vectors={"image": images, "text": texts}, skip_broken=True)
    assert evaluation.per_query["i2t"].num_rows == 4 and evaluation.per_query["t2i"].num_rows == 4
    assert "i2t: 1 item is not measured: one of their queries or candidates was set aside" in evaluation.notes
