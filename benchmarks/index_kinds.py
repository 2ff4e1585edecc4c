"""Every kind of index over one set of vectors: what it costs to build, to keep and to ask, and what it misses.

    python benchmarks/index_kinds.py [--documents 20000] [--queries 500]

Generated vectors, seeded, on one core: the process is pinned to one, so that every library uses one thread. Dense: 256
dimensions. Sparse: a vocabulary of 30,522, about 110 terms a document and 40 a query. Queries are asked in one batch;
the best of three is taken. Recall is the share of the exact best ten that are found. Other programs, such as Seismic
and SciPy, stand beside the inverted index in `sparse_search.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from visir.records import Embeddings, EncoderCard, Run, SparseEmbeddings, Vocabulary
from visir.retrieval.kinds import KINDS, build_index, open_index

CARD = EncoderCard("generated", "imported")
TERMS, TOPICS = 30_522, 400
TRUTH = {"dense": "exact", "sparse": "inverted"}
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("exact", {}),
    ("hnsw", {}),
    ("hnsw", {"ef_search": 256}),
    ("inverted", {}),
    ("inverted", {"budget": 20_000}),
]
"""Kinds, and settings of the search; what is built is built with the defaults."""


def dense(documents: int, queries: int) -> tuple[Embeddings, Embeddings]:
    """Documents around topics, queries beside documents."""
    rng = np.random.default_rng(1)
    topics = rng.standard_normal((TOPICS, 256), np.float32)
    of_topic = topics[rng.integers(0, TOPICS, documents)] + 1.2 * rng.standard_normal((documents, 256), np.float32)
    near = of_topic[rng.integers(0, documents, queries)] + 0.9 * rng.standard_normal((queries, 256), np.float32)
    return (
        Embeddings("image", [f"i{n:07}" for n in range(documents)], of_topic, CARD),
        Embeddings("text", [f"t{n:07}" for n in range(queries)], near, CARD),
    )


def sparse(documents: int, queries: int) -> tuple[SparseEmbeddings, SparseEmbeddings]:
    """Three topics each, of 60 terms; and terms that are frequent everywhere."""
    rng = np.random.default_rng(2)
    frequency = 1 / (np.arange(TERMS) + 5.0)
    frequency /= frequency.sum()
    order = rng.permutation(TERMS)
    topics = order[rng.choice(TERMS, (TOPICS, 60), p=frequency)]
    words = Vocabulary("generated", pa.array([f"w{n}" for n in range(TERMS)]), np.ones(TERMS, np.bool_))

    def drawn(side: str, n: int, kept: float, noise: int) -> SparseEmbeddings:
        terms = np.hstack(
            [topics[rng.integers(0, TOPICS, (n, 3))].reshape(n, -1), order[rng.choice(TERMS, (n, noise), p=frequency)]]
        )
        weights = rng.gamma(2.0, 0.4, terms.shape).astype(np.float32) * (rng.random(terms.shape) < kept)
        rows = np.repeat(np.arange(n), terms.shape[1])
        matrix = csr_array((weights.ravel(), (rows, terms.ravel())), shape=(n, TERMS))
        return SparseEmbeddings.from_scipy(side, [f"{side[0]}{i:07}" for i in range(n)], matrix, words, CARD)  # type: ignore[arg-type]

    return drawn("image", documents, 0.5, 60), drawn("text", queries, 0.2, 25)


def recall(found: Run, truth: Run) -> float:
    hits = wanted = 0
    for query in truth.queries.to_pylist():
        best = dict(truth.answer(query))
        hits += len(best.keys() & dict(found.answer(query)).keys())
        wanted += len(best)
    return hits / wanted


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--documents", type=int, default=20_000)
    asked.add_argument("--queries", type=int, default=500)
    sizes = vars(asked.parse_args())
    data: dict[str, tuple[Any, Any]] = {"dense": dense(**sizes), "sparse": sparse(**sizes)}
    documents, queries = data["sparse"]
    shape = [len(one.terms) / len(one) for one in (documents, queries)]
    print(
        f"{sizes['documents']:,} documents, {sizes['queries']:,} queries; sparse: "
        f"{shape[0]:.0f} terms a document, {shape[1]:.0f} a query; "
        "on one core",
        file=sys.stderr,
    )
    truth = {form: build_index(data[form][0], kind).search(data[form][1], 10) for form, kind in TRUTH.items()}
    print("| kind | vectors | search settings | build s | MB | queries/s | recall@10 |")
    print("|---|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        built: dict[str, float] = {}
        for kind, settings in ASKED:
            form = KINDS.get(kind).vectors
            place = Path(folder) / kind
            if kind not in built:
                warm = data[form][0].select(data[form][0].ids[:50])
                build_index(warm, kind).search(data[form][1], 10)  # compiled code is loaded before the clock starts
                start = time.perf_counter()
                build_index(data[form][0], kind, place)
                built[kind] = time.perf_counter() - start
            index = open_index(place)
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                run = index.search(data[form][1], 10, **settings)
                seconds.append(time.perf_counter() - start)
            said = ", ".join(f"{name} {value}" for name, value in settings.items()) or "default"
            print(
                f"| {kind} | {form} | {said} | {built[kind]:.1f} | {index.info().bytes / 1e6:.1f} "
                f"| {sizes['queries'] / min(seconds):,.0f} | {recall(run, truth[form]):.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
