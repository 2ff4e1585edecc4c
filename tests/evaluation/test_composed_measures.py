"""CIRCO's mAP@k and CIRR's recalls against plain code, on 10,000 random cases each."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import visir
from visir.records import Gallery, Items, Pools, Qrels, Run, Task

sys.path.append(str(Path(__file__).parents[1] / "collections"))

CASES = 10_000


def average_precision_at(ranking: list[int], right: set[int], k: int) -> float:
    """As CIRCO's paper defines it, section 6: the sum over the first k places of precision times relevance, divided by
    the number of right answers, or by k if that is smaller."""
    total, correct = 0.0, 0
    for place in range(k):
        if place < len(ranking) and ranking[place] in right:
            correct += 1
            total += correct / (place + 1)
    return total / min(len(right), k)


def table(run: Run, qrels: Qrels, documents: int, measures: list[str], **fields: object) -> pa.Table:
    ids = [f"{number:03}" for number in range(documents)]
    task = Task(
        "it2i",
        Items.of_texts(dict.fromkeys(qrels.queries.to_pylist(), "x")),
        Items.of_texts(dict.fromkeys(ids, "x")),
        {"qrels": qrels},
        source="random",
        **fields,  # type: ignore[arg-type]
    )
    return visir.evaluate(task, {"it2i": run}, measures=measures).result.per_query["it2i"]


def test_circo_average_precision() -> None:
    random = np.random.default_rng(1)
    documents, depth = 60, 50
    queries, columns, scores, right = [], [], [], {}
    for case in range(CASES):
        query = f"q{case:05}"
        ranking = random.permutation(documents)[:depth]
        queries += [query] * depth
        columns.append(ranking)
        scores.append(np.arange(depth, 0, -1))
        right[query] = set(random.choice(documents, random.integers(1, 15), replace=False).tolist())
    names = [f"{number:03}" for number in range(documents)]
    run = Run.ranked(
        "random", "it2i", queries, [names[number] for number in np.concatenate(columns)], np.concatenate(scores),
        Gallery.of("text", names, "all documents", title="documents"), depth=depth,
    )  # fmt: skip
    pairs = [(query, names[number]) for query, numbers in right.items() for number in numbers]
    measured = table(run, Qrels.of(*zip(*pairs, strict=True)), documents, [f"capped_map@{k}" for k in (5, 10, 25, 50)])
    rows = measured.to_pydict()
    for k in (5, 10, 25, 50):
        values = dict(zip(rows["query_id"], rows[f"capped_map@{k}"], strict=True))
        for (query, numbers), ranking in zip(right.items(), columns, strict=True):
            assert values[query] == pytest.approx(average_precision_at(ranking.tolist(), numbers, k), abs=1e-12)


def test_cirr_recalls() -> None:
    """recall@k without the reference; recall_subset@k among the five others of the subset, in the order of the run."""
    random = np.random.default_rng(2)
    documents = 30
    names = [f"{number:03}" for number in range(documents)]
    gallery = Gallery.of("text", names, "all documents", title="documents")
    queries, ranked, scores = [], [], []
    truth: dict[str, tuple[int, int, list[int], list[int]]] = {}
    for case in range(CASES):
        query = f"q{case:05}"
        ranking = random.permutation(documents).tolist()
        members = random.choice(documents, 6, replace=False).tolist()
        reference, target = members[random.integers(3)], members[3 + random.integers(3)]
        truth[query] = (reference, target, members, ranking)
        queries += [query] * documents
        ranked += [names[number] for number in ranking]
        scores.append(np.arange(documents, 0, -1))
    run = Run.ranked("random", "it2i", queries, ranked, np.concatenate(scores), gallery, depth=documents)
    qrels = Qrels.of(list(truth), [names[target] for _, target, _, _ in truth.values()])
    excluded = Pools.of(list(truth), [names[reference] for reference, _, _, _ in truth.values()])
    subsets = [
        (query, names[member])
        for query, (reference, _, members, _) in truth.items()
        for member in members
        if member != reference
    ]
    whole = table(run, qrels, documents, ["hit@1", "hit@5", "hit@10"], excluded=excluded).to_pydict()
    subset = table(
        run, qrels, documents, ["hit@1", "hit@2", "hit@3"], pools=Pools.of(*zip(*subsets, strict=True))
    ).to_pydict()
    for row, query in enumerate(whole["query_id"]):
        reference, target, members, ranking = truth[query]
        left = [number for number in ranking if number != reference]
        for k in (1, 5, 10):
            assert whole[f"hit@{k}"][row] == (target in left[:k])
        among = [number for number in left if number in members]
        for k in (1, 2, 3):
            assert subset[f"hit@{k}"][row] == (target in among[:k])
