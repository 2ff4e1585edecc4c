"""Qdrant, embedded, behind visir's `Index`: what it costs to fill, to keep and to ask, and what it finds.

    python benchmarks/qdrant.py [--documents 123000 --queries 2000] [--keep FOLDER] [--only dense sparse local]

The vectors are those of `sparse_search.py` (`sparse_data.py`): dense ones of 256 dimensions, sparse ones of about 350
terms (queries: 150 expanded, 10 plain). One thread; everything is processor time, searches the best of three over the
whole batch in one call, "single" with one call for each query. "engine" is the same search of the engine alone: no
vectors come back, nothing is scored a second time, and there is no run. Recall is the share of a query's answers that
score at least as the exact k-th best. `local` measures the pure Python mode of qdrant-client on a tenth of the
documents, to say why it is not the embedded engine here.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sparse_data import vectors
from visir.records import Embeddings, EncoderCard
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote.index import EdgeEngine
from visir.retrieval.shard_runs import best_of, kth_scores, share_found

CARD = EncoderCard("generated", "imported")
EFS = (32, 48, 64, 96, 128)
K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=123_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--keep", type=Path, help="where the indexes are kept, or taken from")
    parser.add_argument("--only", nargs="*", default=["dense", "sparse", "local"], choices=["dense", "sparse", "local"])
    arguments = parser.parse_args()
    given = vectors(arguments.documents, arguments.queries, dense=True)
    ids, asked = given["documents"].ids, given["expanded"].ids
    dense = Embeddings("image", ids, as_array(given["dense_documents"]), CARD)
    dense_queries = Embeddings("text", asked, as_array(given["dense_queries"]), CARD)
    print(
        "| index | queries | setting | q/s | single q/s | engine q/s | recall@10 |\n|---|---|---|---:|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        if "dense" in arguments.only:
            index = filled("qdrant", dense, folder)
            truth = kth_scores(build_index(dense, "exact").search(dense_queries, K), K)
            for ef in EFS:
                measured(index, "dense", dense_queries, truth, folder, ef_search=ef)
        if "sparse" in arguments.only:
            index = filled("qdrant-sparse", given["documents"], folder)
            exact = build_index(given["documents"], "inverted")
            for form in ("expanded", "plain"):
                measured(index, form, given[form], kth_scores(exact.search(given[form], K), K), folder)
    if "local" in arguments.only:
        local(np.asarray(dense.vectors[: arguments.documents // 10]), np.asarray(dense_queries.vectors[:50]))


def as_array(given: Any) -> Any:
    return np.asarray(getattr(given, "vectors", given), np.float32)


def filled(kind: str, documents: Any, folder: Path) -> Any:
    """The index of this kind, built now or kept; what building cost is said in a line of its own."""
    place = folder / kind
    if not place.exists():
        start, wall = time.process_time(), time.perf_counter()
        build_index(documents, kind, place)
        spent, wall = time.process_time() - start, time.perf_counter() - wall
        print(
            f"{kind}: {len(documents):,} documents in {spent:.0f} s of processor time ({wall:.0f} s), "
            f"{len(documents) / spent:,.0f} a second; {on_disk(place) / 1e6:,.0f} MB on disk",
            flush=True,
        )
    before = resident()
    index = open_index(place)
    print(f"{kind}: loaded, {resident() - before:,.0f} MB more resident", flush=True)
    return index


def measured(index: Any, form: str, queries: Any, truth: Any, folder: Path, **options: int) -> None:
    """One row of the table."""
    seconds, run = best_of(lambda: index.search(queries, K, **options))
    one = [queries.select([name]) for name in queries.ids[:300].to_pylist()]
    alone, _ = best_of(lambda: [index.search(each, K, **options) for each in one])
    engine, asked = bare(index, folder, queries, options)
    setting = ", ".join(f"{name}={value}" for name, value in options.items())
    print(
        f"| {index.kind} | {form} | {setting} | {len(queries) / seconds:,.0f} | {len(one) / alone:,.0f} "
        f"| {asked / engine:,.0f} | {share_found(run, truth):.4f} |",
        flush=True,
    )


def bare(index: Any, folder: Path, queries: Any, options: dict[str, int]) -> tuple[float, int]:
    """Seconds of the engine alone, asked in batches of 64."""
    import qdrant_edge as q

    engine = EdgeEngine.readable(next((folder / index.kind).glob("engine-*")))
    sparse = index.space == "sparse"
    vectors_ = [
        q.SparseVector(*(part.tolist() for part in queries.row(at))) if sparse else queries.vectors[at].tolist()
        for at in range(len(queries))
    ]
    requests = [
        q.QueryRequest(
            limit=K,
            query=q.Query.Nearest(vector, using=index.space),
            params=q.SearchParams(hnsw_ef=options.get("ef_search")),
        )
        for vector in vectors_
    ]
    batches = [q.QueryBatchRequest(requests[at : at + 64]) for at in range(0, len(requests), 64)]
    seconds, _ = best_of(lambda: [engine._shard.query_batch(batch) for batch in batches])
    engine.close()
    return seconds, len(requests)


def local(documents: Any, queries: Any) -> None:
    """The same search by qdrant-client's local mode."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection(
        "local", vectors_config=models.VectorParams(size=documents.shape[1], distance=models.Distance.DOT)
    )
    start = time.process_time()
    for at in range(0, len(documents), 1000):
        rows = documents[at : at + 1000].tolist()
        client.upsert("local", [models.PointStruct(id=at + i, vector=row) for i, row in enumerate(rows)])
    spent = time.process_time() - start
    seconds, _ = best_of(lambda: [client.query_points("local", query.tolist(), limit=K) for query in queries])
    print(
        f"qdrant-client's local mode, {len(documents):,} dense documents: {len(documents) / spent:,.0f} inserted a "
        f"second, {len(queries) / seconds:,.0f} q/s, everything looked at",
        flush=True,
    )


def on_disk(folder: Path) -> int:
    """Bytes that are really written: the engine's pages have holes."""
    return sum(one.stat().st_blocks * 512 for one in folder.rglob("*") if one.is_file())


def resident() -> float:
    """Megabytes of memory of this process, mapped files that were touched included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
