"""Qdrant's own storage and search as a library (qdrant-edge-py), a peer: what filling and asking costs, what it finds.

    python benchmarks/qdrant.py [--documents 123000 --queries 2000] [--only dense sparse local]

The vectors are those of `sparse_search.py` (`sparse_data.py`): dense ones of 256 dimensions, sparse ones of about 350
terms (queries: 150 expanded, 10 plain). One thread; everything is processor time, searches the best of three over the
whole batch, 64 queries at once; no vectors come back, and nothing is scored a second time. Recall is the share of a
query's answers that score at least as the exact k-th best. `local` measures the pure Python mode of qdrant-client on a
tenth of the documents.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as q

from sparse_data import vectors
from visir.records import Embeddings, EncoderCard
from visir.retrieval.kinds import build_index
from visir_papers.experiments.stress import best_of, kth_scores

CARD = EncoderCard("generated", "imported")
EFS = (32, 48, 64, 96, 128)
K = 10
LARGEST_SEGMENT, FULL_SCAN = 100_000_000, 10_000  # kilobytes: one graph; up to 10 MB every vector is looked at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=123_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--only", nargs="*", default=["dense", "sparse", "local"], choices=["dense", "sparse", "local"])
    arguments = parser.parse_args()
    given = vectors(arguments.documents, arguments.queries, dense=True)
    ids, asked = given["documents"].ids, given["expanded"].ids
    dense = Embeddings("image", ids, unit(given["dense_documents"]), CARD)
    dense_queries = Embeddings("text", asked, unit(given["dense_queries"]), CARD)
    print("| queries | setting | q/s | recall@10 |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        if "dense" in arguments.only:
            shard = filled(Path(scratch) / "dense", [row.tolist() for row in dense.vectors], dense.dimension)
            truth = kth_scores(build_index(dense, "exact").search(dense_queries, K), K)
            for ef in EFS:
                measured(shard, "dense", [row.tolist() for row in dense_queries.vectors], truth, ef)
        if "sparse" in arguments.only:
            shard = filled(Path(scratch) / "sparse", rows_of(given["documents"]), None)
            exact = build_index(given["documents"], "inverted")
            for form in ("expanded", "plain"):
                measured(shard, form, rows_of(given[form]), kth_scores(exact.search(given[form], K), K))
    if "local" in arguments.only:
        local(np.asarray(dense.vectors[: arguments.documents // 10]), np.asarray(dense_queries.vectors[:50]))


def unit(given: Any) -> Any:
    rows = np.asarray(getattr(given, "vectors", given), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rows_of(given: Any) -> list[Any]:
    return [q.SparseVector(*(part.tolist() for part in given.row(at))) for at in range(len(given))]


def filled(place: Path, rows: list[Any], dimension: int | None) -> Any:
    """A shard of these vectors; what filling it costs is said in a line of its own."""
    place.mkdir()
    space: dict[str, Any] = {"sparse_vectors": {"v": q.EdgeSparseVectorParams()}}
    if dimension:
        space = {"vectors": {"v": q.EdgeVectorParams(size=dimension, distance=q.Distance.Dot)},
                 "hnsw_config": q.HnswIndexConfig(m=32, ef_construct=200, full_scan_threshold=FULL_SCAN,
                                                  max_indexing_threads=1)}  # fmt: skip
    optimizers = q.EdgeOptimizersConfig(
        default_segment_number=1, indexing_threshold=FULL_SCAN, max_segment_size=LARGEST_SEGMENT
    )
    start, wall = time.process_time(), time.perf_counter()
    shard = q.EdgeShard.create(
        str(place), q.EdgeConfig(**space, optimizers=optimizers, max_search_threads=1, wal_enabled=False)
    )
    for first in range(0, len(rows), 1000):
        points = [q.Point(first + at, {"v": row}, {}) for at, row in enumerate(rows[first : first + 1000])]
        shard.update(q.UpdateOperation.upsert_points(points))
    shard.optimize()
    shard.flush()
    spent, wall = time.process_time() - start, time.perf_counter() - wall
    written = sum(one.stat().st_blocks * 512 for one in place.rglob("*") if one.is_file())  # its pages have holes
    print(
        f"{len(rows):,} documents in {spent:.0f} s of processor time ({wall:.0f} s), "
        f"{len(rows) / spent:,.0f} a second; {written / 1e6:,.0f} MB on disk",
        flush=True,
    )
    return shard


def measured(shard: Any, form: str, queries: list[Any], truth: Any, ef: int | None = None) -> None:
    """One row of the table."""
    requests = [
        q.QueryRequest(limit=K, query=q.Query.Nearest(query, using="v"), params=q.SearchParams(hnsw_ef=ef))
        for query in queries
    ]
    batches = [q.QueryBatchRequest(requests[at : at + 64]) for at in range(0, len(requests), 64)]
    seconds, answers = best_of(lambda: [answer for batch in batches for answer in shard.query_batch(batch)])
    least = np.asarray(truth)[:, None] * (1 - 1e-5)  # single precision
    scores = [[hit.score for hit in answer] + [-np.inf] * (K - len(answer)) for answer in answers]
    found = (np.array(scores) >= least).mean()
    setting = "" if ef is None else f"ef_search={ef}"
    print(f"| {form} | {setting} | {len(queries) / seconds:,.0f} | {found:.4f} |", flush=True)


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


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
