"""How much searching and measuring costs beside the bare matrix product of the same scores.

    python benchmarks/search_and_measure.py [--captions 25000 --images 5000 --dimension 512 --depth 10 --rounds 3]

25,000 captions × 5,000 images, both tasks, every measure with its per-query values, cross-modal DCG at 10 among
them. All measures but that one are exact to the end of the gallery whatever the depth of the run is; it needs 10. Each
way runs in a process of its own (so that peak memory is its own), best of several calls; the rounds alternate between
the ways, so that a busy machine is busy for all of them. "CPU" is processor time of all threads together.

- bare: `np.matmul` of all captions and all images into a matrix that is allocated beforehand; nothing is done with it
- visir: `search_both`, `measure` for all measures, `dcg_cm@10`; from vectors to tables, Run records checked and all
- deep: the same, with the best 100 answers of every query instead of 10
- naive: the product in both tasks, `argpartition` (100 deep), `ir_measures`
- ranx: the product in both tasks, `argpartition` (100 deep), `ranx.evaluate`
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
from collections.abc import Callable
from typing import Any

import numpy as np

DEEP = 100
NOISE = 4.0  # captions lie about as far from their image as CLIP's do from theirs: hit@1 is neither 0 nor 1


def vectors(shape: argparse.Namespace, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((shape.images, shape.dimension), dtype=np.float32)
    owner = np.arange(shape.captions) * shape.images // shape.captions
    texts = images[owner] + NOISE * rng.standard_normal((shape.captions, shape.dimension), dtype=np.float32)
    for side in (images, texts):
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    return images, texts


def bare(shape: argparse.Namespace) -> Callable[[], Any]:
    images, texts = vectors(shape)
    scores = np.empty((shape.captions, shape.images), np.float32)
    return lambda: np.matmul(texts, images.T, out=scores)


def visir(shape: argparse.Namespace) -> Callable[[], Any]:
    from visir.evaluation.cross_modal import Estimator, dcg_cm
    from visir.evaluation.measures import DEFAULT_MEASURES, MEASURES, aggregate, measure
    from visir.records import Embeddings, EncoderCard, Qrels
    from visir.retrieval.exact import search_both

    names = list(DEFAULT_MEASURES)
    for name, one in MEASURES.items():
        names += [name] if one.cutoff != "required" else [f"{name}@{k}" for k in (1, 5, 10)]
    names = list(dict.fromkeys(names))
    image_ids = [f"image{i:06}" for i in range(shape.images)]
    text_ids = [f"caption{i:06}" for i in range(shape.captions)]
    owners = [image_ids[i * shape.images // shape.captions] for i in range(shape.captions)]

    def sides(seed: int) -> tuple[Embeddings, Embeddings]:
        images, texts = vectors(shape, seed)
        card = EncoderCard(f"encoder {seed}", "benchmark")
        return Embeddings("image", image_ids, images, card), Embeddings("text", text_ids, texts, card)  # type: ignore[arg-type]

    images, texts = sides(0)
    others = sides(1)
    qrels = {"t2i": Qrels.of(text_ids, owners), "i2t": Qrels.of(owners, text_ids)}

    def run() -> Any:
        found = search_both(images, texts, qrels=qrels, depth=shape.depth)  # type: ignore[arg-type]
        tables, estimator = {}, Estimator(*others)
        for task, one in found.items():
            assert one.ranks is not None
            tables[task] = measure(one.ranks, names)
            further = dcg_cm(one.run, qrels[task], [10], estimator)
            tables[task] = tables[task].append_column("dcg_cm@10", further["dcg_cm@10"])
        return {task: aggregate(table) for task, table in tables.items()}

    return run


def naive_runs(shape: argparse.Namespace) -> tuple[dict[str, tuple[dict, dict]], Callable[[], dict[str, dict]]]:
    images, texts = vectors(shape)
    image_ids = [f"image{i:06}" for i in range(shape.images)]
    text_ids = [f"caption{i:06}" for i in range(shape.captions)]
    owner = np.arange(shape.captions) * shape.images // shape.captions
    qrels: dict[str, dict] = {"t2i": {}, "i2t": {}}
    for t, i in enumerate(owner):
        qrels["t2i"][text_ids[t]] = {image_ids[i]: 1}
        qrels["i2t"].setdefault(image_ids[i], {})[text_ids[t]] = 1

    def search() -> dict[str, dict]:
        runs = {}
        for task, (q, c, qi, ci) in {
            "t2i": (texts, images, text_ids, image_ids),
            "i2t": (images, texts, image_ids, text_ids),
        }.items():
            scores = q @ c.T
            top = np.argpartition(-scores, DEEP - 1, axis=1)[:, :DEEP]
            best = np.take_along_axis(scores, top, axis=1).tolist()
            runs[task] = {
                query: dict(zip([ci[d] for d in documents], values, strict=True))
                for query, documents, values in zip(qi, top.tolist(), best, strict=True)
            }
        return runs

    return qrels, search


def naive(shape: argparse.Namespace) -> Callable[[], Any]:
    import ir_measures
    from ir_measures import AP, RR, P, R, Rprec, Success, nDCG

    qrels, search = naive_runs(shape)
    wanted = [
        Success @ 1,
        Success @ 5,
        Success @ 10,
        R @ 1,
        R @ 5,
        R @ 10,
        P @ 1,
        P @ 5,
        P @ 10,
        RR,
        AP,
        nDCG @ 10,
        Rprec,
    ]
    return lambda: {d: list(ir_measures.iter_calc(wanted, qrels[d], run)) for d, run in search().items()}


def ranx(shape: argparse.Namespace) -> Callable[[], Any]:
    import ranx

    qrels, search = naive_runs(shape)
    ks = (1, 5, 10)
    wanted = [f"{name}@{k}" for name in ("hit_rate", "recall", "precision") for k in ks] + [
        "mrr",
        "map",
        "ndcg@10",
        "r-precision",
    ]
    return lambda: {
        d: ranx.evaluate(ranx.Qrels(qrels[d]), ranx.Run(run), wanted, return_mean=False) for d, run in search().items()
    }


def deep(shape: argparse.Namespace) -> Callable[[], Any]:
    return visir(argparse.Namespace(**{**vars(shape), "depth": DEEP}))


WAYS = {"bare": bare, "visir": visir, "deep": deep, "naive": naive, "ranx": ranx}


def measure_one(shape: argparse.Namespace) -> None:
    """Run one way in this process and print its figures as JSON."""
    call = WAYS[shape.one](shape)
    ready = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times, cpu = [], []
    for _ in range(shape.calls):
        start, busy = time.perf_counter(), time.process_time()
        call()
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - busy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"times": times, "cpu": cpu, "peak": peak / 2**20, "ready": ready / 2**20}))


def start(way: str, shape: argparse.Namespace, calls: int, **environment: str) -> dict[str, Any]:
    options = [f"--{name}={getattr(shape, name)}" for name in ("captions", "images", "dimension", "depth")]
    command = [sys.executable, __file__, f"--one={way}", f"--calls={calls}", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("captions", 25_000), ("images", 5_000), ("dimension", 512), ("depth", 10), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    shape = parser.parse_args()
    if shape.one:
        measure_one(shape)
        return
    figures: dict[str, list[dict[str, Any]]] = {way: [] for way in shape.ways.split(",")}
    with tempfile.TemporaryDirectory() as empty:
        compiled = start("visir", shape, 1, NUMBA_CACHE_DIR=empty)
    for turn in range(shape.rounds):
        for way, seen in figures.items():
            slow = way in ("naive", "ranx")
            if turn == 0 or not slow:
                seen.append(start(way, shape, 1 if slow else shape.calls))
    best = {way: min(t for one in seen for t in one["times"]) for way, seen in figures.items()}
    busy = {way: min(t for one in seen for t in one["cpu"]) for way, seen in figures.items()}
    print(f"{shape.captions:,} captions × {shape.images:,} images, {shape.dimension}-d, depth {shape.depth}, "
          f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{'':8}{'best':>9}{'× bare':>9}{'CPU':>9}{'× bare':>9}{'first call':>12}{'peak RSS':>11}")
    for way, seen in figures.items():
        first = min(one["times"][0] for one in seen)
        peak = max(one["peak"] for one in seen)
        print(f"{way:8}{best[way]:8.2f}s{best[way] / best['bare']:9.2f}{busy[way]:8.2f}s{busy[way] / busy['bare']:9.2f}"
              f"{first:11.2f}s{peak:8.2f}GiB")  # fmt: skip
    print(f"visir, first call ever on a machine (kernels are compiled and kept): {compiled['times'][0]:.1f} s")


if __name__ == "__main__":
    main()
