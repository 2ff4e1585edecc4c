"""Weighted words in shards: each is made, built, searched and deleted, one after the other; the answers are merged.

    python benchmarks/sparse_shards.py [--documents 10000000 --per-shard 1000000 --queries 500]

The vectors are those of `sparse_search.py` (`sparse_data.py`), so a collection of ten million fits a machine that has
room for one shard: on the disk and in memory there is never more. One thread; what is printed for each setting is the
processor time of one query over all shards together, and recall: the share of a query's answers that score at least as
the exact tenth best of all shards. A cluster answers in the time of the slowest shard (docs/background/scale.md).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from sparse_data import documents_between, vectors
from visir.records import Run
from visir.retrieval import merge_shards
from visir.retrieval.index import Index
from visir.retrieval.kinds import build_index
from visir_papers.experiments.stress import kth_scores, share_found

SETTINGS: list[dict[str, int]] = [{}, {"budget": 80_000}, {"budget": 160_000}, {"budget": 320_000}]
K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("documents", 10_000_000), ("per-shard", 1_000_000), ("queries", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    shape = parser.parse_args()
    queries = vectors(shape.documents, shape.queries, dense=False, with_documents=False)["expanded"]
    seconds, runs = [0.0] * len(SETTINGS), [list[Run]() for _ in SETTINGS]
    built, stored, started = 0.0, 0, time.perf_counter()
    for first in range(0, shape.documents, shape.per_shard):
        last = min(first + shape.per_shard, shape.documents)
        with tempfile.TemporaryDirectory() as folder:
            index, spent = build(first, last, Path(folder, "index"))
            built, stored = built + spent, stored + index.info().bytes
            index.search(queries.select(queries.ids[:2]), K, threads=1)  # compiles, or reads compiled code
            for at, setting in enumerate(SETTINGS):
                start = time.process_time()
                runs[at].append(index.search(queries, K, threads=1, **setting))
                seconds[at] += time.process_time() - start
        print(f"{last:,} documents; {time.perf_counter() - started:,.0f} s, peak of memory {peak():.1f} GB", flush=True)
    merged = [merge_shards(of_setting) for of_setting in runs]
    truth = kth_scores(merged[0], K)
    print(
        f"{shape.documents:,} documents in {len(runs[0])} shards, {len(queries):,} queries: built in {built:,.0f} s of "
        f"processor time, {stored / shape.documents:,.0f} bytes a document"
    )
    for setting, run, spent in zip(SETTINGS, merged, seconds, strict=True):
        name = f"budget {setting['budget']:,} a shard" if setting else "exact"
        rate = len(queries) * len(runs[0]) / spent
        print(
            f"{name:24} {1000 * spent / len(queries):8.1f} ms a query over all shards ({rate:,.0f} queries a second of "
            f"a shard), recall {share_found(run, truth):.4f}"
        )


def build(first: int, last: int, folder: Path) -> tuple[Index[Any], float]:
    """The index of a shard, and the processor time of building it; the vectors are forgotten."""
    documents: Any = documents_between(first, last)
    start = time.process_time()
    index = build_index(documents, "inverted", folder)
    return index, time.process_time() - start


def peak() -> float:
    """Of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
