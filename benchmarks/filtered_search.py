"""What a filter costs: search among 1 to 100 % of many vectors, one query at a time, one thread.

    OMP_NUM_THREADS=1 python benchmarks/filtered_search.py --documents 123000 --kinds exact hnsw

Prints milliseconds of processor time for a query (the median of three turns over all queries) beside that of an
unfiltered search, and what preparing the filter takes once. What is allowed is drawn at random; `--far` allows those
that are farthest from the first query instead, the worst case.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from visir.records import Embeddings, EncoderCard
from visir.retrieval import filtered
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.kinds import build_index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=123_000)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", default=["exact"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.01, 0.1, 0.5, 0.9, 1.0])
    parser.add_argument("--far", action="store_true")
    parser.add_argument("--scanned", type=int, default=filtered.SCANNED, help="visir.retrieval.filtered.SCANNED")
    given = parser.parse_args()
    filtered.SCANNED = given.scanned
    rng, card = np.random.default_rng(0), EncoderCard("random", "imported")
    centres = rng.standard_normal((2000, given.dimension), np.float32)
    near = centres[rng.integers(0, 2000, given.documents + given.queries)]
    vectors = near + 0.7 * rng.standard_normal(near.shape, np.float32)
    ids = pa.array([f"{at:08}" for at in range(given.documents)])
    documents = Embeddings("image", ids, vectors[: given.documents], card)
    asked = [
        Embeddings("text", pa.array(["q"]), vectors[given.documents + at :][:1], card) for at in range(given.queries)
    ]
    print("| kind | allowed | prepared (ms) | k = 10 (ms) | k = 100 (ms) |\n|---|--:|--:|--:|--:|")
    for kind in given.kinds:
        index = build_index(documents, kind)
        index.search(asked[0], 10)
        print(f"| {kind} | unfiltered | | {_each(index, asked, 10):.1f} | {_each(index, asked, 100):.1f} |", flush=True)
        far = np.argsort(vectors[: given.documents] @ asked[0].vectors[0])
        for share in given.shares:
            n = int(share * given.documents)
            chosen = np.sort(far[:n] if given.far else rng.choice(given.documents, n, replace=False))
            begun = time.process_time()
            among = FilteredIndex(index, ids.take(pa.array(chosen)))
            prepared = 1e3 * (time.process_time() - begun)
            among.search(asked[0], 10)
            took = f"{_each(among, asked, 10):.1f} | {_each(among, asked, 100):.1f}"
            print(f"| {kind} | {share:.0%} | {prepared:.0f} | {took} |", flush=True)


def _each(index: Any, asked: Sequence[Embeddings], k: int) -> float:
    """Milliseconds of processor time for a query."""
    turns = []
    for _ in range(3):
        begun = time.process_time()
        for one in asked:
            index.search(one, k)
        turns.append(1e3 * (time.process_time() - begun) / len(asked))
    return sorted(turns)[1]


if __name__ == "__main__":
    main()
