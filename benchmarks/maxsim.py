"""MaxSim over many documents: exact search, indexes, a plain torch loop, and fast-plaid, each in a process of its own.

    python benchmarks/maxsim.py [--documents 100000] [--queries 1000] [--cores 2] [--systems exact,torch,…]
                                [--fast-plaid /path/to/python]    (of an environment with fast-plaid)

Generated unit vectors of 128 numbers in half precision, seeded: documents of 64 vectors around twelve of 2,000 topics
(`--topics`), queries of 32 noisy copies of vectors of one document. The more topics there are, the more the second to
tenth best documents are so by chance, and the harder they are for an index. All queries are given at once; the loop
gets the first `--loop-queries`, as its cost for each query is always the same. An index is built once and searched with
several settings. For each system: seconds to build and to search, queries a second, the largest resident memory of the
process (pages of mapped files count), bytes on disk, and recall: the share of the exact best ten that are found.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

K = 10
Result = tuple[str, NDArray[Any], dict[str, Any]]
"""Settings of the search, the best ten documents of each query, and figures."""


def generate(folder: Path, arguments: argparse.Namespace) -> None:
    """Write `documents.npy` and `queries.npy`: (n, t, d) float16."""
    rng = np.random.default_rng(arguments.seed)
    d, topics = arguments.dimension, arguments.topics
    centres = unit(rng.standard_normal((topics, d), np.float32))
    share = 1 / np.arange(20, topics + 20)  # some topics are in many documents, as words are (Zipf)
    share /= share.sum()
    shape = (arguments.documents, arguments.document_vectors, d)
    documents = np.lib.format.open_memmap(folder / "documents.npy", "w+", np.float16, shape)
    for start in range(0, len(documents), 1000):
        n = min(1000, len(documents) - start)
        of_document = rng.choice(topics, (n, 12), p=share)
        topic = np.take_along_axis(of_document, rng.integers(0, 12, (n, shape[1])), axis=1)
        own = unit(rng.standard_normal((n, 1, d), np.float32))
        noise = unit(rng.standard_normal((n, shape[1], d), np.float32))
        documents[start : start + n] = unit(centres[topic] + 0.6 * own + 0.6 * noise)
    sources = rng.choice(len(documents), arguments.queries)
    queries = np.empty((arguments.queries, arguments.query_vectors, d), np.float16)
    for row, source in enumerate(sources):
        vectors = documents[source][rng.integers(0, shape[1], arguments.query_vectors)].astype(np.float32)
        queries[row] = unit(vectors + 0.9 * unit(rng.standard_normal(vectors.shape, np.float32)))
    np.save(folder / "queries.npy", queries)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Make vectors of length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def records(folder: Path) -> Any:
    """The queries and the documents as records of visir; documents stay on disk."""
    from visir.records import EncoderCard, MultiVectorEmbeddings

    card = EncoderCard("generated", "imported")
    sides = []
    for name, modality in (("queries", "text"), ("documents", "image")):
        cube = np.load(folder / f"{name}.npy", mmap_mode="r")
        offsets = np.arange(len(cube) + 1, dtype=np.int64) * cube.shape[1]
        ids = [f"{row:07}" for row in range(len(cube))]
        sides.append(MultiVectorEmbeddings(modality, ids, offsets, cube.reshape(-1, cube.shape[2]), card))  # type: ignore[arg-type]
    return sides


def exact(folder: Path) -> list[Result]:
    """visir.retrieval.exact."""
    from visir.retrieval.exact import search

    queries, documents = records(folder)
    search(queries.take(np.arange(2)), documents.take(np.arange(200)), depth=K)  # compiles
    started = time.perf_counter()
    run = search(queries, documents, depth=K).run
    return [("", run.indices.reshape(-1, K), {"search": time.perf_counter() - started})]


def indexed(kind: str, *searches: Mapping[str, int], **options: Any) -> Callable[[Path], list[Result]]:
    """An index of visir: built in a folder, opened, searched with its defaults and with other settings."""

    def measured(folder: Path) -> list[Result]:
        from visir.retrieval.kinds import build_index, open_index

        queries, documents = records(folder)
        place = folder / "index"
        started = time.perf_counter()
        build_index(documents, kind, place, **options)
        built = time.perf_counter() - started
        index = open_index(place)
        index.search(queries.take(np.arange(20)), K)  # compiles, and reads the files once
        results = []
        for search in ({}, *searches):
            started = time.perf_counter()
            run = index.search(queries, K, **search)
            facts = {"build": built, "search": time.perf_counter() - started, "bytes": index.info().bytes}
            label = " ".join(f"{name}={value}" for name, value in search.items())
            results.append((label, run.indices.reshape(-1, K), facts))
        return results

    return measured


def torch_loop(folder: Path) -> list[Result]:
    """The loop that one writes: a matrix product for each block of documents, its maxima, their sum."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    queries = torch.from_numpy(np.load(folder / "queries.npy")[: int(os.environ["LOOP_QUERIES"])]).float()
    documents = np.load(folder / "documents.npy", mmap_mode="r")
    n, t, d = queries.shape
    started = time.perf_counter()
    scores = []
    with torch.inference_mode():
        for start in range(0, len(documents), 64):
            block = torch.from_numpy(np.array(documents[start : start + 64])).float()
            products = queries.reshape(-1, d) @ block.reshape(-1, d).T
            scores.append(products.view(n, t, len(block), -1).amax(3).sum(1))
        best = torch.cat(scores, 1).topk(K, 1).indices
    return [("", best.numpy(), {"search": time.perf_counter() - started})]


def fast_plaid(folder: Path) -> list[Result]:
    """fast-plaid with its defaults, on the CPU."""
    import torch
    from fast_plaid import search  # type: ignore[import-not-found]

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    documents = torch.from_numpy(np.load(folder / "documents.npy")).float()
    queries = torch.from_numpy(np.load(folder / "queries.npy")).float()
    place = folder / "index"
    started = time.perf_counter()
    engine = search.FastPlaid(index=str(place), device="cpu")
    engine.create(documents_embeddings=list(documents))
    built = time.perf_counter() - started
    del documents
    engine.search(queries_embeddings=queries[:20], top_k=K)
    started = time.perf_counter()
    answers = engine.search(queries_embeddings=queries, top_k=K)
    seconds = time.perf_counter() - started
    rows = np.full((len(queries), K), -1)
    for row, answer in enumerate(answers):
        rows[row, : len(answer)] = [document for document, _ in answer]
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return [("", rows, {"build": built, "search": seconds, "bytes": size})]


WIDER = ({"candidates": 2048}, {"probes": 8, "candidates": 2048}, {"candidates": 8192})
SYSTEMS: dict[str, Callable[[Path], list[Result]]] = {
    "exact": exact,
    "torch": torch_loop,
    "maxsim-ivf": indexed("maxsim-ivf", *WIDER),
    "maxsim-ivf-4bit": indexed("maxsim-ivf", quantisation="residual", bits=4),
    "maxsim-ivf-8bit": indexed("maxsim-ivf", quantisation="residual", bits=8),
    "maxsim-4bit": indexed("maxsim", quantisation="residual", bits=4),
    "fast-plaid": fast_plaid,
}


def worker(name: str, folder: Path) -> None:
    """Run one system, and print what it measured."""
    results = SYSTEMS[name](folder)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number, (label, best, facts) in enumerate(results):
        np.save(folder / f"best{number}.npy", best)
        print("RESULT " + json.dumps([label, {**facts, "memory": memory}]), flush=True)


def measured(name: str, folder: Path, arguments: argparse.Namespace) -> list[Result]:
    """Run a system in a process of its own."""
    python = arguments.fast_plaid if name == "fast-plaid" else sys.executable
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.cores), "VISIR_QUIET": "1"}
    environment |= {"RAYON_NUM_THREADS": str(arguments.cores), "MKL_NUM_THREADS": str(arguments.cores)}
    environment["LOOP_QUERIES"] = str(arguments.loop_queries)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for array in ("documents.npy", "queries.npy"):
            Path(own, array).symlink_to(folder / array)
        done = subprocess.run(
            [python, __file__, "--worker", name, "--folder", own], env=environment, stdout=subprocess.PIPE, text=True
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or not lines:
            raise SystemExit(f"{name} failed ({done.returncode}): {done.stdout[-2000:]}")
        results = [json.loads(line.removeprefix("RESULT ")) for line in lines]
        return [
            (label, np.load(Path(own, f"best{number}.npy")), facts) for number, (label, facts) in enumerate(results)
        ]


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--document-vectors", type=int, default=64)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--loop-queries", type=int, default=200)
    parser.add_argument("--query-vectors", type=int, default=32)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--fast-plaid", default="", help="the python of an environment with fast-plaid; else left out")
    parser.add_argument("--folder", type=Path, help="where the vectors are written (default: a temporary folder)")
    parser.add_argument("--worker", choices=SYSTEMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.folder)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as own:
        folder = Path(own)
        generate(folder, arguments)
        names = [name for name in arguments.systems.split(",") if name != "fast-plaid" or arguments.fast_plaid]
        print(
            f"{arguments.documents:,} documents × {arguments.document_vectors} vectors × {arguments.dimension}, "
            f"{arguments.queries:,} queries × {arguments.query_vectors}; {arguments.cores} cores; "
            f"load before: {os.getloadavg()[0]:.1f}"
        )
        print(
            f"{'':40} {'build s':>8} {'search s':>9} {'queries/s':>10} {'GB memory':>10} {'MB disk':>8} {'recall':>7}"
        )
        truth = None
        for name in ["exact", *(name for name in names if name != "exact")]:
            for label, best, facts in measured(name, folder, arguments):
                truth = best if truth is None else truth
                pairs = zip(best.tolist(), truth.tolist(), strict=False)  # the loop has fewer queries
                shares = [len(set(answer) & set(right)) / K for answer, right in pairs]
                print(
                    f"{f'{name} {label}':40} {facts.get('build', 0):8.1f} {facts['search']:9.2f} "
                    f"{len(best) / facts['search']:10.1f} {facts['memory'] / 1e9:10.2f} "
                    f"{facts.get('bytes', 0) / 1e6:8.0f} {np.mean(shares):7.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
