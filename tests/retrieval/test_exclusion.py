"""Documents that are no candidates of one query: the ranks are those of a search that never saw them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import visir
from refusals import refused
from visir.errors import CollectionError, ProtocolError
from visir.evaluation.systems import RunSystem, VectorSystem
from visir.records import Embeddings, EncoderCard, Items, Pools, Qrels, Run, Task, Ties

CARD = EncoderCard("by hand", "test", revision="1")


def vectors(rows: dict[str, list[float]]) -> Embeddings:
    return Embeddings("text", list(rows), np.array(list(rows.values()), np.float32), CARD)  # type: ignore[arg-type]


def task(qrels: dict[str, list[str]], excluded: dict[str, list[str]], documents: str = "abcd") -> Task:
    pairs = [(query, document) for query, listed in qrels.items() for document in listed]
    out = [(query, document) for query, listed in excluded.items() for document in listed]
    return Task(
        "t2t",
        Items.of_texts({query: query for query in qrels}, title="queries"),
        Items.of_texts({document: document for document in documents}, title="documents"),
        {"qrels": Qrels.of(*zip(*pairs, strict=True), name="qrels")},
        excluded=Pools.of(*zip(*out, strict=True)),
        source="by hand",
    )


SIDES = {
    "query": vectors({"q1": [1, 0], "q2": [0, 1]}),
    "document": vectors({"a": [1, 0.1], "b": [1, 0.2], "c": [1, 0.3], "d": [0.1, 1]}),
}


def test_the_reference_is_no_candidate() -> None:
    # q1 ranks a, b, c, d; without a, its positive c is second. q2 ranks d, c, b, a; without d, c is first.
    evaluation = visir.evaluate(
        task({"q1": ["c"], "q2": ["c"]}, {"q1": ["a"], "q2": ["d"]}), SIDES, measures=["hit@1", "mrr", "mean_rank"]
    )
    assert evaluation.runs["t2t"].top("q1") == ["b", "c", "d"]
    assert evaluation.runs["t2t"].top("q2") == ["c", "b", "a"]
    assert evaluation["t2t MRR"] == pytest.approx((1 / 2 + 1) / 2)
    assert evaluation["t2t hit@1"] == 0.5
    line = evaluation.result.protocol.galleries["t2t"]
    assert line.startswith("4 documents · all documents · ")
    assert "without 2 excluded documents of single queries" in line
    assert evaluation.result.protocol.depth is None


def test_two_readings_are_not_compared() -> None:
    without = task({"q1": ["c"], "q2": ["c"]}, {"q1": ["a"], "q2": ["d"]})
    first = visir.evaluate(without, SIDES, name="one")
    second = visir.evaluate(replace(without, excluded=None), SIDES, name="two")
    with refused(ProtocolError, "galleries"):
        visir.compare(first, second)


def test_an_excluded_positive_cannot_be_found() -> None:
    evaluation = visir.evaluate(task({"q1": ["a", "b"]}, {"q1": ["a"]}), SIDES, measures=["recall@2", "hit@1"])
    assert evaluation["t2t recall@2"] == 0.5
    assert evaluation["t2t hit@1"] == 1.0


def test_a_run_with_the_reference_in_it() -> None:
    run = Run.ranked("mine", "t2t", ["q1"] * 3, ["a", "b", "c"], [0.9, 0.8, 0.7], _gallery(), depth=3)
    evaluation = visir.evaluate(task({"q1": ["c"]}, {"q1": ["a"]}), {"t2t": run}, measures=["mrr"])
    assert evaluation["t2t MRR"] == 0.5
    assert evaluation.runs["t2t"].top("q1") == ["b", "c"]
    assert evaluation.result.protocol.depth == 2  # what stands behind the run may be the next answer
    assert "t2t: left out: 1 answer of the run, excluded documents" in evaluation.result.notes


def test_an_unknown_document_is_refused() -> None:
    with refused(CollectionError, "excluded documents", "document", "z", code="name-not-task", hint=False):
        task({"q1": ["c"]}, {"q1": ["z"]})


def test_the_picture_of_a_task_says_it() -> None:
    assert "1 document excluded" in repr(task({"q1": ["c"]}, {"q1": ["a"]}))


@pytest.mark.parametrize("ties", ["id", "pessimistic", "optimistic"])
def test_random_searches_equal_searches_of_fewer_documents(ties: Ties) -> None:
    """One query at a time over the documents that are left: the plain way, with many equal scores."""
    random = np.random.default_rng(5)
    for _ in range(60):
        documents = [f"d{number}" for number in range(9)]
        queries = [f"q{number}" for number in range(4)]
        sides = {
            "query": Embeddings("text", queries, random.integers(1, 3, (4, 2)).astype(np.float32), CARD),
            "document": Embeddings("text", documents, random.integers(1, 3, (9, 2)).astype(np.float32), CARD),
        }
        right = {query: random.choice(documents, 3, replace=False).tolist() for query in queries}
        out = {query: random.choice(documents, random.integers(1, 4), replace=False).tolist() for query in queries}
        whole = Task(
            "t2t",
            Items.of_texts({query: query for query in queries}),
            Items.of_texts({document: document for document in documents}),
            {"qrels": _qrels(right)},
            excluded=Pools.of(
                [query for query in queries for _ in out[query]],
                [document for query in queries for document in out[query]],
            ),
        )
        ranks, runs = VectorSystem(sides).rank({"t2t": [whole]}, depth=4, ties=ties)
        again, _ = RunSystem(
            {"t2t": VectorSystem(sides).rank({"t2t": [replace(whole, excluded=None)]}, depth=9, ties="id")[1]["t2t"]}
        ).rank({"t2t": [whole]}, depth=9, ties=ties)
        for row, query in enumerate(queries):
            left = [document for document in documents if document not in out[query]]
            alone = replace(
                whole,
                documents=whole.documents.select(left),
                qrels={"qrels": _qrels({query: right[query]})},
                excluded=None,
            )
            expected, runs_alone = VectorSystem(sides).rank({"t2t": [alone]}, depth=4, ties=ties)
            part = slice(ranks["t2t"][0].offsets[row], ranks["t2t"][0].offsets[row + 1])
            assert ranks["t2t"][0].ranks[part].tolist() == expected["t2t"][0].ranks.tolist()
            assert again["t2t"][0].ranks[part].tolist() == expected["t2t"][0].ranks.tolist()
            assert runs["t2t"].top(query) == runs_alone["t2t"].top(query)


def _qrels(right: dict[str, list[str]]) -> Qrels:
    pairs = [(query, document) for query, listed in right.items() for document in listed]
    return Qrels.of(*zip(*pairs, strict=True), name="qrels")


def _gallery():
    from visir.records import Gallery

    return Gallery.of("text", list("abcd"), "all documents", title="documents")
