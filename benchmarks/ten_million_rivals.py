"""Kind "ivf" beside graphs that others make: FAISS, usearch, DiskANN in memory and on disk, and Intel's SVS with LVQ.

    python benchmarks/ten_million_rivals.py [--sizes 1e5 1e6] [--only ivf usearch ...] [--rivals-python PATH]

Vectors, queries and truth are those of `ten_million.py`. Each build and each search is a process of its own, with one
thread. A build that takes more than --minutes of processor time is stopped. Every search is of all queries in one
batch; its rate is given by processor time and by the clock, the best of three after a first one, so that files that the
system can keep are in its memory by then; DiskANN reads past that memory. A graph is built with 64 neighbours at most
(32 in each layer of HNSW, 64 in its lowest) and 100 candidates (FAISS's and usearch's own defaults: 40 and 128).

diskannpy wants an old NumPy. What this Python does not have is looked for in the one that --rivals-python names:

    python -m venv other && other/bin/pip install diskannpy scalable-vs

Others are passed over, with a line that says so. A million vectors take 2 GB of disk more than the indexes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ten_million import DEPTH, Memory, blocks, faiss_build, faiss_search, generate, ivf_build, ivf_search, measured

DEGREE, CANDIDATES = 64, 100
RESCORED = 30  # of int8: the best ten are nearly always among its best thirty
CODE_BYTES = 128  # of DiskANN's codes in memory, as many as those of kind "ivf" take


@dataclass(frozen=True)
class Rival:
    """One index: the module that it needs, how it is built and searched, and the settings that are tried."""

    name: str
    module: str
    build: Callable[[Path, int], dict[str, Any]]
    search: Callable[[Path, int, int], dict[str, Any]]
    settings: Sequence[int]


def refine_build(folder: Path, size: int) -> dict[str, Any]:
    """Build FAISS's lists and codes of kind "ivf", all in memory."""
    lists = int(2 ** round(np.log2(4 * np.sqrt(size))))
    return faiss_build(folder, size, f"IVF{lists}_HNSW32,PQ256x4fs,Refine(SQfp16)", "refine")


def usearch_build(folder: Path, size: int) -> dict[str, Any]:
    """Build usearch's graph over vectors of int8."""
    from usearch.index import Index

    memory = Memory()
    dimension = np.load(folder / "queries.npy", mmap_mode="r").shape[1]
    index = Index(ndim=dimension, metric="ip", dtype="i8", connectivity=DEGREE // 2)
    first = 0
    for block in blocks(folder, size):
        index.add(np.arange(first, first + len(block)), block, threads=1)
        first += len(block)
    index.save(str(folder / "usearch.index"))
    held = bytes_of(folder / "usearch.index")
    return {"peak": memory.peak(), "memory": held, "disk": held + 2 * dimension * size}  # and float16, for re-scoring


def usearch_search(folder: Path, size: int, expansion: int) -> dict[str, Any]:
    """Search usearch's graph, and score its best exactly by the vectors on disk."""
    from usearch.index import Index

    queries = np.load(folder / "queries.npy")
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    memory = Memory()
    index = Index.restore(str(folder / "usearch.index"))
    index.expansion_search = expansion

    def search() -> np.ndarray:
        near = index.search(queries, RESCORED, threads=1).keys.astype(np.int64)
        for query, rows in enumerate(near):
            whole = vectors[rows].astype(np.float32)
            scores = whole @ queries[query] / np.linalg.norm(whole, axis=1)
            near[query] = rows[np.argsort(-scores, kind="stable")]
        return near[:, :DEPTH]

    about = f"expansion {expansion}, {RESCORED} re-scored"
    return {"settings": about, **measured(search, folder, size), "peak": memory.peak()}


def diskann_build(folder: Path, size: int) -> dict[str, Any]:
    """Build DiskANN's graph in memory. L2 orders vectors of length 1 as the inner product does."""
    import diskannpy

    (folder / "diskann").mkdir()
    memory = Memory()
    diskannpy.build_memory_index(
        str(folder / "vectors.bin"), "l2", str(folder / "diskann"), complexity=CANDIDATES, graph_degree=DEGREE,
        num_threads=1, vector_dtype=np.float32,
    )  # fmt: skip
    held = bytes_of(folder / "diskann")
    return {"peak": memory.peak(), "memory": held, "disk": held}


def diskann_search(folder: Path, size: int, complexity: int) -> dict[str, Any]:
    """Search DiskANN's graph in memory."""
    import diskannpy

    queries = np.load(folder / "queries.npy")
    memory = Memory()
    index = diskannpy.StaticMemoryIndex(str(folder / "diskann"), num_threads=1, initial_search_complexity=complexity)

    def search() -> np.ndarray:
        return index.batch_search(queries, DEPTH, complexity, num_threads=1).identifiers

    return {"settings": f"complexity {complexity}", **measured(search, folder, size), "peak": memory.peak()}


def diskann_disk_build(folder: Path, size: int) -> dict[str, Any]:
    """Build DiskANN's graph with vectors on disk, and codes for memory."""
    import diskannpy

    (folder / "diskann-disk").mkdir()
    memory = Memory()
    diskannpy.build_disk_index(
        str(folder / "vectors.bin"), "l2", str(folder / "diskann-disk"), complexity=CANDIDATES, graph_degree=DEGREE,
        search_memory_maximum=CODE_BYTES * size / 2**30, build_memory_maximum=6, num_threads=1,
        vector_dtype=np.float32,
    )  # fmt: skip
    codes = bytes_of(*(folder / "diskann-disk").glob("*_pq_*"))
    graph = bytes_of(*(folder / "diskann-disk").glob("*_disk.index*"))
    return {"peak": memory.peak(), "memory": codes, "disk": codes + graph}


def diskann_disk_search(folder: Path, size: int, complexity: int) -> dict[str, Any]:
    """Search DiskANN's graph on disk, two reads at once."""
    import diskannpy

    queries = np.load(folder / "queries.npy")
    memory = Memory()
    # With room for one thread alone, diskannpy 0.7 waits for itself for ever while it opens.
    index = diskannpy.StaticDiskIndex(str(folder / "diskann-disk"), num_threads=2, num_nodes_to_cache=0)

    def search() -> np.ndarray:
        return index.batch_search(queries, DEPTH, complexity, num_threads=1, beam_width=2).identifiers

    return {"settings": f"complexity {complexity}", **measured(search, folder, size), "peak": memory.peak()}


def svs_build(folder: Path, size: int) -> dict[str, Any]:
    """Build SVS's graph over codes of 4 bits and residuals of 8."""
    import svs

    memory = Memory()
    vectors = svs.VectorDataLoader(str(folder / "vectors.bin"), svs.float32)
    parameters = svs.VamanaBuildParameters(graph_max_degree=DEGREE, window_size=CANDIDATES)
    index = svs.Vamana.build(parameters, svs.LVQLoader(vectors, primary=4, residual=8), svs.MIP, num_threads=1)
    parts = [folder / "svs" / part for part in ("config", "graph", "data")]
    parts[0].parent.mkdir()
    index.save(*map(str, parts))
    held = bytes_of(*parts)
    return {"peak": memory.peak(), "memory": held, "disk": held}


def svs_search(folder: Path, size: int, window: int) -> dict[str, Any]:
    """Search SVS's graph."""
    import svs

    queries = np.load(folder / "queries.npy")
    memory = Memory()
    graph, data = svs.GraphLoader(str(folder / "svs" / "graph")), svs.LVQLoader(str(folder / "svs" / "data"))
    index = svs.Vamana(str(folder / "svs" / "config"), graph, data, svs.MIP, num_threads=1)
    index.search_window_size = window
    result = measured(lambda: index.search(queries, DEPTH)[0].astype(np.int64), folder, size)
    return {"settings": f"window {window}", **result, "peak": memory.peak()}


RIVALS = {
    "ivf": Rival(
        "ivf", "visir", lambda folder, size: each(ivf_build(folder, size), size),
        lambda folder, size, probes: ivf_search(folder, size, probes, 0), (16, 32, 64, 128, 256),
    ),
    "faiss-refine": Rival(
        "FAISS IVF, PQ256x4fs, Refine(SQfp16)", "faiss", lambda folder, size: each(refine_build(folder, size), size),
        lambda folder, size, probes: faiss_search(folder, size, "refine", probes, 100), (16, 32, 64, 128),
    ),
    "faiss-hnsw": Rival(
        "FAISS HNSW32,Flat", "faiss",
        lambda folder, size: each(faiss_build(folder, size, "HNSW32,Flat", "hnsw"), size),
        lambda folder, size, effort: faiss_search(folder, size, "hnsw", effort, 0), (32, 64, 128, 256),
    ),
    "usearch": Rival("usearch, int8", "usearch", usearch_build, usearch_search, (32, 64, 128, 256)),
    "diskann": Rival("DiskANN in memory, float32", "diskannpy", diskann_build, diskann_search, (16, 32, 64, 128)),
    "diskann-disk": Rival(
        f"DiskANN on disk, PQ of {CODE_BYTES} bytes", "diskannpy", diskann_disk_build, diskann_disk_search,
        (16, 32, 64, 128),
    ),
    "svs": Rival("SVS Vamana, LVQ4x8", "svs", svs_build, svs_search, (16, 32, 64, 128)),
}  # fmt: skip


def each(built: dict[str, Any], size: int) -> dict[str, Any]:
    """Return what a build of `ten_million.py` gave for each vector as bytes of the whole."""
    return {**built, "memory": built["memory"] * size, "disk": built["disk"] * size}


def bytes_of(*paths: Path) -> int:
    """Return the bytes of files, and of all files in folders."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sum(file.stat().st_size for file in files)


def as_bin(folder: Path, size: int) -> None:
    """Write `vectors.bin`, in the format that DiskANN and SVS read: two numbers of 4 bytes, then float32."""
    dimension = np.load(folder / "queries.npy", mmap_mode="r").shape[1]
    with (folder / "vectors.bin").open("wb") as stream:
        np.array([size, dimension], np.uint32).tofile(stream)
        for block in blocks(folder, size):
            block.tofile(stream)


def step(name: str, action: str, folder: Path, given: list[Any], minutes: float) -> None:
    """Do one step in this process, and write `step.json`: what it gave, and the processor time of the process."""
    if minutes:
        resource.setrlimit(resource.RLIMIT_CPU, (int(60 * minutes), -1))
    functions = {"generate": generate, "as_bin": as_bin}
    result = (functions[action] if action in functions else getattr(RIVALS[name], action))(folder, *given) or {}
    (folder / "step.json").write_text(json.dumps({**result, "minutes": time.process_time() / 60}))


def alone(python: str, name: str, action: str, folder: Path, *given: Any, minutes: float = 0) -> dict[str, Any] | None:
    """Run a step in a process of its own with one thread. None is returned when it took too long."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [python, __file__, "--step", json.dumps([name, action, str(folder), given, minutes])]
    done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, check=False, text=True)
    if done.returncode == -signal.SIGXCPU:
        return None
    if done.returncode:
        raise SystemExit(f"{name}, {action}: ended with {done.returncode}\n{done.stderr}")
    result: dict[str, Any] = json.loads((folder / "step.json").read_text())
    return result


def python_with(module: str, candidates: list[str]) -> str | None:
    """Return the first Python that can import a module."""
    for python in candidates:
        if not subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            return python
    return None


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5])
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--minutes", type=float, default=0, help="of processor time for a build; 0: no limit")
    parser.add_argument("--rivals-python", help="the Python that has what this one has not")
    parser.add_argument("--folder", type=Path, help="where scratch goes; it is removed")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, action, folder, given, minutes = json.loads(options.step)
        step(name, action, Path(folder), given, minutes)
        return
    sizes = sorted(int(size) for size in options.sizes)
    pythons = [sys.executable, *([options.rivals_python] if options.rivals_python else [])]
    having = {name: python_with(RIVALS[name].module, pythons) for name in options.only}
    for name in (name for name, python in having.items() if python is None):
        print(f"{RIVALS[name].name}: passed over, no Python named here has {RIVALS[name].module}")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        alone(sys.executable, "", "generate", Path(scratch), sizes, options.dimension, options.queries)
        print("\n| vectors | index | search | build, minutes | bytes in memory | on disk | GB building | GB searching "
              "| recall@10 | q/s | q/s by the clock |")  # fmt: skip
        print("|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
        for size in sizes:
            alone(sys.executable, "", "as_bin", Path(scratch), size)
            for name, python in having.items():
                if python:
                    rows(python, name, Path(scratch), size, options.minutes)


def rows(python: str, name: str, folder: Path, size: int, minutes: float) -> None:
    """Print the rows of one rival, and remove its index."""
    rival, before = RIVALS[name], set(folder.iterdir())
    built = alone(python, name, "build", folder, size, minutes=minutes)
    if built is None:
        print(f"| {size:,} | {rival.name} | stopped | > {minutes:g} |", flush=True)
    for setting in rival.settings if built else ():
        searched = alone(python, name, "search", folder, size, setting)
        if built and searched:
            print(
                f"| {size:,} | {rival.name} | {searched['settings']} | {built['minutes']:.1f} "
                f"| {built['memory'] / size:,.0f} | {built['disk'] / size:,.0f} | {built['peak']:.2f} "
                f"| {searched['peak']:.2f} | {searched['recall']:.3f} | {searched['speed']:,.0f} "
                f"| {searched['clock']:,.0f} |",
                flush=True,
            )
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
