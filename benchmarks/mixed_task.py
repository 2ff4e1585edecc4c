"""How long a task of texts, pictures and both takes with given vectors, beside a task of pictures of the same size.

    python benchmarks/mixed_task.py [--queries 5000 --documents 100000 --dimension 512 --rounds 3]

Both tasks have the same queries, documents, judgements and vectors. They differ in what the items hold:

- pictures: the queries are texts, the documents pictures
- mixed: of the queries, and of the documents, four in ten are texts, four in ten pictures, two in ten both
- by kind: the same task, and the vectors are given by what an item holds: they are put together first
- opened: the same task again, from dictionaries by `visir.open`; the time of opening stands apart

Each runs in a process of its own, so that peak memory is its own; the rounds alternate between them, and the best
counts. "evaluate" is all of `visir.evaluate` with its default measures: exact search, ranks of all positives, the
values of each query, intervals. Each query has two right documents.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import visir
from visir.evaluation.systems import VectorSystem
from visir.records import Embeddings, EncoderCard, Items, Qrels, Task
from visir.records.items import PLACES

CARD = EncoderCard("random", "benchmark", revision="1")
CASES = ("pictures", "mixed", "by kind", "opened")
NOISE = 2.0


def ids_of(letter: str, count: int) -> pa.StringArray:
    """(n,) ids."""
    return pa.array([f"{letter}{number:07}" for number in range(count)])


def items(letter: str, count: int, holds: str, title: str) -> Items:
    """Items that hold texts ("text"), pictures ("image"), or two parts in five, two in five and one in five of each."""
    rows = np.arange(count)
    text = rows % 5 < 3 if holds == "mixed" else np.full(count, holds == "text")
    image = rows % 5 > 1 if holds == "mixed" else np.full(count, holds == "image")
    texts = pa.array([f"text {row}" if has else None for row, has in enumerate(text.tolist())], pa.string())
    paths = pa.array([f"{row}.jpg" if has else None for row, has in enumerate(image.tolist())], pa.string())
    places = pa.table([paths, pa.nulls(count, pa.string())], schema=PLACES)
    return Items(
        ids_of(letter, count), texts if text.any() else None, places if image.any() else None, title=title, name="made"
    )


def prepared(case: str, shape: argparse.Namespace) -> tuple[Any, dict[str, Any], float]:
    """The task, its vectors, and the seconds that opening takes."""
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((shape.documents, shape.dimension), np.float32)
    right = rng.integers(0, shape.documents, (shape.queries, 2))
    right[:, 1] = (right[:, 0] + 1 + right[:, 1] % (shape.documents - 1)) % shape.documents
    queries = documents[right[:, 0]] + documents[right[:, 1]]
    queries += NOISE * rng.standard_normal(queries.shape, np.float32)
    sides = [
        items("q", shape.queries, "text" if case == "pictures" else "mixed", "queries"),
        items("d", shape.documents, "image" if case == "pictures" else "mixed", "documents"),
    ]
    judged = sides[1].ids.take(pa.array(right.ravel()))
    qrels = Qrels.of(sides[0].ids.take(pa.array(np.repeat(np.arange(shape.queries), 2))), judged)
    task: Any = Task("made", *sides, {"links": qrels}, source="made", source_fingerprint="1" * 32)
    seconds = 0.0
    if case == "opened":
        parts = {side: dict(zip(part.ids.to_pylist(), rows_of(part), strict=True))
                 for side, part in zip(("queries", "documents"), sides, strict=True)}  # fmt: skip
        answers = {query: list(judged[2 * row : 2 * row + 2].to_pylist())
                   for row, query in enumerate(sides[0].ids.to_pylist())}  # fmt: skip
        started = time.perf_counter()
        task = visir.open({**parts, "qrels": answers}, images="none")
        seconds = time.perf_counter() - started
    matrices = {"query": (sides[0], queries), "document": (sides[1], documents)}
    if case != "by kind":
        vectors = {role: Embeddings(part.modality, part.ids, rows, CARD) for role, (part, rows) in matrices.items()}
        return task, vectors, seconds
    by_kind = {}
    for kind in ("text", "image", "text+image"):
        own = [(part.ids.take(pa.array(part.kinds[kind])), rows[part.kinds[kind]]) for part, rows in matrices.values()]
        joined = np.concatenate([rows for _, rows in own])
        by_kind[kind] = Embeddings(kind, pa.concat_arrays([ids for ids, _ in own]), joined, CARD)  # type: ignore[arg-type]
    return task, by_kind, seconds


def rows_of(part: Items) -> list[dict[str, Any]]:
    """Items as dictionaries."""
    texts = part.texts.to_pylist() if part.texts is not None else [None] * len(part)
    paths = part.places["path"].to_pylist() if part.places is not None else [None] * len(part)
    return [{"text": text, "image": path} for text, path in zip(texts, paths, strict=True)]


def measure(case: str, shape: argparse.Namespace) -> dict[str, float]:
    """One evaluation in this process."""
    task, vectors, opening = prepared(case, shape)
    started, used = time.perf_counter(), time.process_time()
    evaluation = visir.evaluate(task, VectorSystem(vectors))
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    name = evaluation.tasks[0]
    return {
        "seconds": seconds,
        "cpu": processor,
        "opening": opening,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "hit": evaluation[f"{name} R@1"],
        **{stage: value for stage, value in evaluation.result.timing.items() if stage in ("search", "measure")},
    }


def main() -> None:
    """Run the cases in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    shape = parser.parse_args()
    if shape.case:
        print(json.dumps(measure(shape.case, shape)))
        return
    results: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(shape.rounds):
        for case in CASES:
            command = [sys.executable, __file__, *sys.argv[1:], "--case", case]
            results[case].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    print(f"{shape.queries:,} × {shape.documents:,}, {shape.dimension} dimensions, best of {shape.rounds}")
    for case, rounds in results.items():
        best = min(rounds, key=lambda values: values["cpu"])
        opening = f", opening {best['opening']:.2f} s" if best["opening"] else ""
        print(
            f"{case:9} evaluate {best['seconds']:6.2f} s ({best['cpu']:.2f} s CPU; search {best['search']:.2f}, "
            f"measure {best['measure']:.2f}), peak {best['peak']:.2f} GiB, R@1 {100 * best['hit']:.2f} %{opening}"
        )


if __name__ == "__main__":
    main()
