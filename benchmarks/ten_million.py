"""Kind "ivf" as collections grow, up to ten million vectors on one machine, beside FAISS's own indexes in the same run.

    python benchmarks/ten_million.py [--sizes 1e5 1e6] [--dimension 512] [--queries 1000] [--hnsw-up-to 1e6]
    python benchmarks/ten_million.py --sizes 1e7 --folder /some/disk --hnsw-up-to 0 --refine-up-to 0

Vectors are generated, seeded, block by block, into a file of float16: a tree of topics of very unequal sizes, variances
that fall by a power law as those of text and image encoders do, 2 % equal and 2 % nearly equal to another vector. They
are somewhat harder to search than real ones: --beside REAL.npy measures that, and nothing else. Queries are new draws.
The truth is exact search over what the file holds, in the same pass. A size is the first so many vectors. Each build
and each search is a process of its own: builds use all cores, searches one thread. Memory is the highest resident set,
mapped pages included, less what the process had before. With --probes and --rescore, kind "ivf" is searched with other
settings too.

Ten million vectors of 512 dimensions take 10.2 GB for the file, and up to 15 GB for the index while it is built. Graphs
of other makers are in `ten_million_rivals.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 65_536
BRANCHES = 128
WEIGHTS = (0.25, 0.15, 0.1)
NOISE = 0.5
BANK = 4096
DEPTH = 10


class Vectors:
    """Generated vectors of length 1, the same at every call.

    A vector is the sum of a common mean, one direction for each level of a tree of topics, and noise. A topic has 128
    topics below it, of very unequal frequency. All have the same spectrum: variances fall by a power law.
    """

    def __init__(self, dimension: int) -> None:
        rng = np.random.default_rng(0)
        variance = (np.arange(dimension) + 2) ** -1.05
        self.spread = np.sqrt(variance / variance.sum()).astype(np.float32)
        self.bank = rng.standard_normal((BANK, dimension), np.float32) * self.spread
        self.mean = 0.5 * rng.standard_normal(dimension, np.float32) * self.spread
        self.turn = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0].astype(np.float32)
        share = 1 / (np.arange(BRANCHES) + 4)
        self.cumulated = np.cumsum(share / share.sum())

    def block(self, number: int) -> np.ndarray:
        """Return a block of documents."""
        rng = np.random.default_rng([1, number])
        vectors = self._drawn(rng, BLOCK)
        few = BLOCK // 50
        copies, sources = rng.choice(BLOCK, 2 * few, replace=False), rng.integers(0, BLOCK, 2 * few)
        vectors[copies] = vectors[sources]
        vectors[copies[few:]] += 0.05 * self.spread * rng.standard_normal((few, vectors.shape[1]), np.float32)
        return self._finished(vectors)

    def queries(self, count: int) -> np.ndarray:
        """Return queries."""
        return self._finished(self._drawn(np.random.default_rng(2), count))

    def _drawn(self, rng: np.random.Generator, count: int) -> np.ndarray:
        vectors = rng.standard_normal((count, len(self.spread)), np.float32) * self.spread * np.float32(NOISE**0.5)
        vectors += self.mean
        topic = np.zeros(count, np.uint64)
        for weight in WEIGHTS:
            branch = np.minimum(np.searchsorted(self.cumulated, rng.random(count)), BRANCHES - 1)
            topic = topic * np.uint64(BRANCHES) + branch.astype(np.uint64) + np.uint64(1)
            mixed = topic * np.uint64(0x9E3779B97F4A7C15)  # a direction of the bank for each topic, by a hash
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
            vectors += np.float32(weight**0.5) * self.bank[(mixed % np.uint64(BANK)).astype(np.int64)]
        return vectors

    def _finished(self, vectors: np.ndarray) -> np.ndarray:
        turned = vectors @ self.turn
        return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def generate(folder: Path, sizes: list[int], dimension: int, count: int) -> None:
    """Write `vectors.npy`, `queries.npy`, and for each size `truth-SIZE.npy`."""
    source = Vectors(dimension)
    queries = source.queries(count)
    np.save(folder / "queries.npy", queries)
    best, rows = np.full((count, DEPTH), -np.inf, np.float32), np.zeros((count, DEPTH), np.int64)
    every = np.arange(count)[:, None]
    with (folder / "vectors.npy").open("wb") as stream:
        header = {"descr": "<f2", "fortran_order": False, "shape": (sizes[-1], dimension)}
        np.lib.format.write_array_header_1_0(stream, header)
        for number in range(-(-sizes[-1] // BLOCK)):
            block = source.block(number).astype(np.float16)[: sizes[-1] - number * BLOCK]
            block.tofile(stream)
            whole = block.astype(np.float32)
            whole /= np.linalg.norm(whole, axis=1, keepdims=True)
            edges = [size - number * BLOCK for size in sizes if 0 < size - number * BLOCK <= len(block)]
            for start, end in zip([0, *edges], [*edges, len(block)], strict=True):
                if end > start:
                    scores = queries @ whole[start:end].T
                    near = np.argpartition(-scores, min(DEPTH, end - start) - 1, axis=1)[:, :DEPTH]
                    scores = np.hstack([best, scores[every, near]])
                    places = np.hstack([rows, near + number * BLOCK + start])
                    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
                    best, rows = scores[every, order], places[every, order]
                if number * BLOCK + end in sizes:
                    np.save(folder / f"truth-{number * BLOCK + end}.npy", rows)


class Memory:
    """The highest resident set of this process from now on, in GB, mapped pages included, as the kernel counts it."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the highest is forgotten
        self.before = self._highest()

    @staticmethod
    def _highest() -> float:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9

    def peak(self) -> float:
        """Return the highest, less what there was at the start."""
        return self._highest() - self.before


def blocks(folder: Path, size: int) -> Iterator[np.ndarray]:
    """Yield the first `size` vectors as float32 of length 1, read rather than mapped."""
    with (folder / "vectors.npy").open("rb") as stream:
        np.lib.format.read_magic(stream)
        dimension = np.lib.format.read_array_header_1_0(stream)[0][1]
        for start in range(0, size, BLOCK):
            rows = min(BLOCK, size - start)
            block = np.fromfile(stream, np.float16, rows * dimension).reshape(rows, dimension).astype(np.float32)
            yield block / np.linalg.norm(block, axis=1, keepdims=True)


def ivf_build(folder: Path, size: int) -> dict[str, Any]:
    """Build kind "ivf"."""
    import pyarrow as pa

    from visir.files import release
    from visir.records import Embeddings, EncoderCard
    from visir.retrieval.kinds import build_index

    ids = pa.array([f"i{number:08}" for number in range(size)], pa.string())
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")[:size]
    memory = Memory()
    start = time.perf_counter()
    index = build_index(Embeddings("image", ids, vectors, EncoderCard("generated", "imported")), "ivf", folder / "ivf")
    release(vectors)
    info = index.info()
    return {
        "build": time.perf_counter() - start,
        "peak": memory.peak(),
        "disk": info.bytes / size,
        "memory": info.details["bytes_in_memory"] / size,
    }


def ivf_search(folder: Path, size: int, probes: int, rescore: int) -> dict[str, Any]:
    """Search kind "ivf"."""
    import pyarrow as pa

    from visir.records import Embeddings, EncoderCard
    from visir.retrieval.kinds import open_index

    queries = np.load(folder / "queries.npy")
    ids = pa.array([f"q{number:08}" for number in range(len(queries))], pa.string())
    asking = Embeddings("text", ids, queries, EncoderCard("generated", "imported"))
    memory = Memory()
    start = time.perf_counter()
    index = open_index(folder / "ivf")
    opened = time.perf_counter() - start
    options = {name: value for name, value in (("probes", probes), ("rescore", rescore)) if value}

    def search() -> np.ndarray:
        run = index.search(asking, DEPTH, **options)
        return run.indices.reshape(len(queries), DEPTH).astype(np.int64)  # ids are in the order of rows

    details = index.info().details
    about = f"probes {probes or details['probes']}, rescore {rescore or details['rescore']}"
    return {"settings": about, "open": opened, **measured(search, folder, size), "peak": memory.peak()}


def faiss_build(folder: Path, size: int, factory: str, name: str) -> dict[str, Any]:
    """Build an index of FAISS from its description."""
    import faiss

    dimension = np.load(folder / "queries.npy", mmap_mode="r").shape[1]
    memory = Memory()
    start = time.perf_counter()
    index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        lists = faiss.extract_index_ivf(index).nlist
        faiss.extract_index_ivf(index).cp.max_points_per_centroid = 40
        step = max(1, size // (40 * lists))
        index.train(np.concatenate([block[::step] for block in blocks(folder, size)]))
    for block in blocks(folder, size):
        index.add(block)
    seconds = time.perf_counter() - start
    faiss.write_index(index, str(folder / f"{name}.faiss"))
    each = (folder / f"{name}.faiss").stat().st_size / size
    return {"build": seconds, "peak": memory.peak(), "disk": each, "memory": each}


def faiss_search(folder: Path, size: int, name: str, probes: int, rescore: int) -> dict[str, Any]:
    """Search an index of FAISS; `probes` is efSearch for a graph."""
    import faiss

    queries = np.load(folder / "queries.npy")
    memory = Memory()
    start = time.perf_counter()
    index = faiss.read_index(str(folder / f"{name}.faiss"))
    opened = time.perf_counter() - start
    if name == "hnsw":
        index.hnsw.efSearch = probes
        about = f"efSearch {probes}"
    else:
        lists = faiss.extract_index_ivf(index)
        lists.nprobe = probes
        faiss.downcast_index(lists.quantizer).hnsw.efSearch = 2 * probes  # as kind "ivf" does
        index.k_factor = rescore / DEPTH
        about = f"nprobe {probes}, k_factor {rescore / DEPTH:g}"
    result = measured(lambda: index.search(queries, DEPTH)[1], folder, size)
    return {"settings": about, "open": opened, **result, "peak": memory.peak()}


def measured(search: Callable[[], np.ndarray], folder: Path, size: int) -> dict[str, Any]:
    """Return the recall of a search, and its speed by processor time and by the clock: the best of three after one."""
    rows, truth = search(), np.load(folder / f"truth-{size}.npy")
    seconds, clock = [], []
    for _ in range(3):
        start, began = time.process_time(), time.perf_counter()
        search()
        seconds.append(time.process_time() - start)
        clock.append(time.perf_counter() - began)
    hits = sum(len(set(a) & set(b)) for a, b in zip(rows.tolist(), truth.tolist(), strict=True))
    return {"recall": hits / truth.size, "speed": len(rows) / min(seconds), "clock": len(rows) / min(clock)}


def hardness(vectors: np.ndarray, queries: np.ndarray, lists: int = 1024) -> list[str]:
    """Return which share of all vectors has to be read, list by list, for .9, .95 and .99 of the best ten."""
    import faiss

    inner = faiss.METRIC_INNER_PRODUCT
    best = faiss.knn(queries, vectors, DEPTH, metric=inner)[1]
    kmeans = faiss.Kmeans(vectors.shape[1], lists, niter=6, seed=1, spherical=True, max_points_per_centroid=40)
    kmeans.train(vectors)
    of_vector = faiss.knn(vectors, kmeans.centroids, 1, metric=inner)[1][:, 0]
    order = faiss.knn(queries, kmeans.centroids, lists, metric=inner)[1]
    place = np.argsort(order, axis=1)
    needed = np.take_along_axis(place, of_vector[best], axis=1)
    read = np.cumsum(np.bincount(of_vector, minlength=lists)[order], axis=1).mean(axis=0) / len(vectors)
    return [f"{read[int(np.quantile(needed, recall))]:.2%}" for recall in (0.9, 0.95, 0.99)]


def beside(path: Path) -> None:
    """Print how hard generated vectors are to search, and as many real ones, of which 1,000 are the queries."""
    real = np.load(path).astype(np.float32)
    real = np.random.default_rng(0).permutation(real / np.linalg.norm(real, axis=1, keepdims=True))
    count = len(real) - 1000
    source = Vectors(512)
    generated = np.concatenate([source.block(number) for number in range(-(-count // BLOCK))])[:count]
    print(f"{count:,} vectors each in 1,024 lists; shares that are read for .9, .95 and .99 of the best ten")
    print("real:", *hardness(real[1000:], real[:1000]))
    print("generated:", *hardness(generated, source.queries(1000)))


STEPS: dict[str, Callable[..., Any]] = {
    "generate": generate, "ivf_build": ivf_build, "ivf_search": ivf_search, "faiss_build": faiss_build,
    "faiss_search": faiss_search,
}  # fmt: skip


def alone(step: str, threads: int, folder: Path, *given: Any) -> Any:
    """Run a step in a process of its own."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    # Threads that spin while they wait stand in the way of each other where cores are few.
    environment = {**os.environ, **limits, "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, __file__, "--step", json.dumps([step, str(folder), *given])]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where scratch goes; it is removed")
    parser.add_argument("--hnsw-up-to", type=float, default=1e6)
    parser.add_argument("--refine-up-to", type=float, default=1e6)
    parser.add_argument("--probes", type=int, nargs="*", default=[])
    parser.add_argument("--rescore", type=int, default=0)
    parser.add_argument("--beside", type=Path, help="a file of real vectors, (n, d)")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step, folder, *given = json.loads(options.step)
        print(json.dumps(STEPS[step](Path(folder), *given)))
        return
    if options.beside:
        beside(options.beside)
        return
    sizes, cores = sorted(int(size) for size in options.sizes), len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        start = time.perf_counter()
        alone("generate", cores, folder, sizes, options.dimension, options.queries)
        print(f"generated, with the truth, in {time.perf_counter() - start:,.0f} s; {cores} cores\n")
        print("| vectors | index | search | build s | bytes in memory | on disk | GB building | GB searching "
              "| open s | recall@10 | q/s |")  # fmt: skip
        print("|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
        for size in sizes:
            built = alone("ivf_build", cores, folder, size)
            usual = alone("ivf_search", 1, folder, size, 0, 0)
            row(size, "ivf", built, usual)
            for probes in options.probes:
                row(size, "ivf", built, alone("ivf_search", 1, folder, size, probes, options.rescore))
            remove(folder / "ivf")
            probes = int(usual["settings"].split()[1].strip(","))
            lists = int(2 ** round(np.log2(4 * np.sqrt(size))))
            refine = f"IVF{lists}_HNSW32,PQ{options.dimension // 2}x4fs,Refine(SQfp16)"
            for name, factory, most, about in (
                ("refine", refine, options.refine_up_to, (probes, 100)),
                ("hnsw", "HNSW32,Flat", options.hnsw_up_to, (64, 0)),
            ):
                if size <= most:
                    built = alone("faiss_build", cores, folder, size, factory, name)
                    row(size, f"FAISS {factory}", built, alone("faiss_search", 1, folder, size, name, *about))
                    (folder / f"{name}.faiss").unlink()


def row(size: int, index: str, built: dict[str, Any], searched: dict[str, Any]) -> None:
    """Print a row."""
    print(
        f"| {size:,} | {index} | {searched['settings']} | {built['build']:,.0f} | {built['memory']:,.0f} "
        f"| {built['disk']:,.0f} | {built['peak']:.2f} | {searched['peak']:.2f} | {searched['open']:.1f} "
        f"| {searched['recall']:.3f} | {searched['speed']:,.0f} |",
        flush=True,
    )


def remove(folder: Path) -> None:
    """Remove an index."""
    from visir.storage import remove_folder

    remove_folder(folder)


if __name__ == "__main__":
    main()
