from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import report_toys as toys

from visir.records import Gallery, Qrels, Result, Run
from visir.reports.examples import ExampleQueries, by_image, first_ranks


@pytest.fixture
def tiny(tmp_path: Path):
    collection = toys.collection(tmp_path)
    return collection, toys.runs(collection)


def chosen(examples, kind, **options):
    return [one.query for one in examples.choose(kind, **options)]


def test_first_ranks_are_those_worked_out_by_hand(tiny):
    collection, runs = tiny
    sorted_out = ExampleQueries(runs["t2i"], collection.qrels("t2i"))
    assert sorted_out.run.queries.to_pylist() == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert sorted_out.ranks.tolist() == [1, 3, 2, 1, 2, 2]


def test_worst_near_and_best_are_chosen_by_rank_and_by_margin(tiny):
    collection, runs = tiny
    sorted_out = ExampleQueries(runs["t2i"], collection.qrels("t2i"))
    assert chosen(sorted_out, "worst") == ["a1", "b0", "c0", "c1"]  # 3, then the 2s by id
    # Gaps behind the wrong first: a1 0.2 - 0.6 = -0.4, b0 0.5 - 0.8 = -0.3, c0 0.2 - 0.3, c1 0.1 - 0.2 = -0.1
    # (in float32 c1's gap is the smaller by a hair).
    assert chosen(sorted_out, "near")[2:] == ["b0", "a1"]
    assert set(chosen(sorted_out, "near")[:2]) == {"c0", "c1"}
    # Leads: a0 0.9 - 0.7 = 0.2; b1 0.4 - 0.3 = 0.1
    assert chosen(sorted_out, "best") == ["a0", "b1"]


def test_one_query_per_image(tiny):
    collection, runs = tiny
    sorted_out = ExampleQueries(runs["t2i"], collection.qrels("t2i"))
    assert chosen(sorted_out, "worst", group=by_image(collection)) == ["a1", "b0", "c0"]


def test_an_example_shows_the_answer_and_where_the_positives_stand(tiny):
    collection, runs = tiny
    shown = ExampleQueries(runs["i2t"], collection.qrels("i2t")).choose("worst", 1, top=3)[0]
    assert (shown.query, shown.rank) == ("c", 5)
    assert [(one.id, one.rank, one.positive) for one in shown.top] == [
        ("a0", 1, False),
        ("a1", 2, False),
        ("b0", 3, False),
    ]
    assert [(one.id, one.rank) for one in shown.positives] == [("c0", 5), ("c1", 6)]


def test_a_rank_beyond_the_run_is_taken_from_the_result(tiny):
    collection, runs = tiny
    full = toys.result(collection, runs)
    cut = ExampleQueries(runs["t2i"].cut(1), collection.qrels("t2i"), full)
    assert cut.ranks.tolist() == [1, 3, 2, 1, 2, 2]
    worst = cut.choose("worst", 1)[0]
    assert [(one.rank, one.score) for one in worst.positives] == [(3, None)]
    # Without the result nobody knows more than that it was not found.
    blind = ExampleQueries(runs["t2i"].cut(1), collection.qrels("t2i"))
    assert blind.ranks.tolist() == [1, np.inf, np.inf, 1, np.inf, np.inf]
    assert blind.choose("worst", 1)[0].rank is None


def test_not_found_within_the_depth_is_not_a_rank(tiny):
    collection, _ = tiny
    shallow = toys.runs(collection, depth=1)
    made = toys.result(collection, shallow)
    made = Result(made.system, made.protocol.changed(depth=1), made.per_query, made.aggregates)
    ids, ranks = first_ranks(made, "t2i")
    assert dict(zip(ids.to_pylist(), ranks, strict=True))["a1"] == np.inf
    assert first_ranks(Result("x", made.protocol, {}, {}), "t2i") is None


def test_queries_without_judgements_are_never_shown():
    gallery = Gallery.of("image", ["x", "y"])
    run = Run.ranked("r", "t2i", ["q1", "q1", "q2", "q2"], ["x", "y", "x", "y"], [2.0, 1.0, 2.0, 1.0], gallery)
    sorted_out = ExampleQueries(run, Qrels.of(["q1"], ["y"]))
    assert sorted_out.judged.tolist() == [True, False]
    assert chosen(sorted_out, "worst") == ["q1"]


def test_ranks_agree_with_a_slow_loop():
    random = np.random.default_rng(0)
    n, m = 40, 30
    scores = np.round(random.normal(size=(n, m)), 1)
    queries, documents = [f"q{i:02}" for i in range(n)], [f"d{i:02}" for i in range(m)]
    run = Run.ranked(
        "r", "t2i", np.repeat(queries, m).tolist(), documents * n, scores.ravel(), Gallery.of("image", documents)
    ).cut(10)
    positive = random.random((n, m)) < 0.1
    rows, columns = np.nonzero(positive)
    qrels = Qrels.of([queries[i] for i in rows], [documents[j] for j in columns])
    sorted_out = ExampleQueries(run, qrels)
    truth = qrels.to_dict()
    for at, query in enumerate(queries):
        found = [rank for rank, (one, _) in enumerate(run.answer(query), 1) if one in truth.get(query, {})]
        assert sorted_out.ranks[at] == (found[0] if found else np.inf)
        assert sorted_out.judged[at] == (query in truth)
    assert isinstance(sorted_out.run.queries, pa.StringArray)
