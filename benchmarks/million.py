"""Exact search of 10,000 texts over 1,000,000 images, from disk, in bounded memory.

    python benchmarks/million.py [--images 1000000 --queries 10000 --dimension 512 --depth 10]

The image vectors are made here: float16 on disk (1 GB), memory-mapped; every query has one positive. Printed: time, the
time of the matrix products alone (measured on a part), and peak memory, in which pages of the mapped file that the
operating system happens to keep are counted apart, because it may drop them whenever it likes.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from visir.evaluation.measures import aggregate, measure
from visir.records import Embeddings, EncoderCard, Qrels
from visir.retrieval.exact import search

BLOCK = 50_000
CARD = EncoderCard("random", "benchmark")


def memory() -> dict[str, float]:
    """GiB in RAM now: "anon" is this process's own, "file" the cached pages of mapped files."""
    status = Path("/proc/self/status").read_text()
    found = {
        key: int(re.search(rf"{line}:\s+(\d+)", status)[1]) for key, line in (("anon", "RssAnon"), ("file", "RssFile"))
    }  # type: ignore[index]
    return {key: kib / 2**20 for key, kib in found.items()}


class Watch(threading.Thread):
    """Remembers the highest memory use while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = memory()
        self.over = threading.Event()

    def run(self) -> None:
        """Look every 20 ms."""
        while not self.over.wait(0.02):
            self.peak = {key: max(value, self.peak[key]) for key, value in memory().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("images", 1_000_000), ("queries", 10_000), ("dimension", 512), ("depth", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    shape = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        stored = np.lib.format.open_memmap(path, "w+", np.float16, (shape.images, shape.dimension))
        owner = np.sort(rng.choice(shape.images, shape.queries, replace=False))
        texts = np.empty((shape.queries, shape.dimension), np.float32)
        for start in range(0, shape.images, BLOCK):
            block = rng.standard_normal((min(BLOCK, shape.images - start), shape.dimension), dtype=np.float32)
            stored[start : start + len(block)] = block
            mine = (owner >= start) & (owner < start + len(block))
            texts[mine] = block[owner[mine] - start]
        stored.flush()
        del stored, block
        texts += 4 * rng.standard_normal(texts.shape, dtype=np.float32)

        product = np.empty((1000, 8000), np.float32)
        part = rng.standard_normal((8000, shape.dimension), dtype=np.float32)
        bare = float("inf")
        for _ in range(5):
            start_time = time.perf_counter()
            np.matmul(texts[:1000], part.T, out=product)
            bare = min(bare, time.perf_counter() - start_time)
        bare *= shape.images * shape.queries / product.size
        del product, part

        image_ids = pa.array([f"image{i:07}" for i in range(shape.images)])
        text_ids = pa.array([f"text{i:07}" for i in range(shape.queries)])
        images = Embeddings("image", image_ids, np.load(path, mmap_mode="r"), CARD)
        queries = Embeddings("text", text_ids, texts, CARD)
        qrels = Qrels.of(text_ids, image_ids.take(pa.array(owner)))
        ready = memory()
        watch = Watch()
        watch.start()
        start_time = time.perf_counter()
        found = search(queries, images, "t2i", depth=shape.depth, qrels=qrels)
        assert found.ranks is not None
        values = aggregate(measure(found.ranks, ["hit@1", "hit@10", "median_rank"]))
        took = time.perf_counter() - start_time
        watch.over.set()
        watch.join()
    print(
        f"{shape.queries:,} queries × {shape.images:,} images, {shape.dimension}-d, float16 on disk, "
        f"depth {shape.depth}"
    )
    print(f"search and measures   {took:8.1f} s   ({shape.images * shape.queries / took / 1e6:,.0f} million scores/s)")
    print(f"the products alone    {bare:8.1f} s   (× {took / bare:.2f})")
    print(f"memory before         {ready['anon']:8.2f} GiB, of which ids and queries")
    print(f"memory, highest       {watch.peak['anon']:8.2f} GiB (+ {watch.peak['file']:.2f} GiB mapped pages in cache)")
    print("  ".join(f"{name} {value:.4g}" for name, value in values.items()))


if __name__ == "__main__":
    main()
