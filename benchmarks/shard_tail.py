"""How late a query over many shards is: the slowest of N answers, queues, second tries, and answers given up.

    python benchmarks/shard_tail.py [--queries 200000] [--measured shard_tail.json] [--plot docs/images/shard-tail.svg]

A query goes to every shard and is answered when the last one answers. Times of one shard are drawn from what
`--measure FOLDER` counted on a real index (kept as a small histogram), or from a lognormal with rare stalls. Everything
is seeded. The mathematics and what follows from the tables: docs/background/scale.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Times]
SHARDS = (1, 4, 16, 64, 256)
LOADS = (0.3, 0.5, 0.7, 0.9)
HISTOGRAM = Path(__file__).with_name("shard_tail.json")


# -- how long one shard takes


@dataclass(frozen=True)
class Histogram:
    """Counts of times between `edges` (milliseconds, geometric); drawn uniformly within a bin."""

    edges: Times
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, milliseconds: Times, bins: int = 60) -> Histogram:
        """Count them."""
        edges = np.geomspace(milliseconds.min() * 0.999, milliseconds.max() * 1.001, bins + 1)
        return cls(edges, np.histogram(milliseconds, edges)[0])

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Times:
        """Times of this shape."""
        bins = rng.choice(len(self.counts), shape, p=self.counts / self.counts.sum())
        low = self.edges[bins]
        return low + rng.random(shape) * (self.edges[bins + 1] - low)


@dataclass(frozen=True)
class Stalling:
    """A lognormal of this median and spread (of the logarithm); a share of answers waits `stall` longer (a page that is
    not in memory, a collection of garbage, a neighbour)."""

    median: float = 1.0
    spread: float = 0.25
    share: float = 0.005
    stall: float = 20.0

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Times:
        """Times of this shape."""
        times = self.median * np.exp(self.spread * rng.standard_normal(shape))
        return times + self.stall * (rng.random(shape) < self.share)


# -- what becomes of it over many shards


def waits(rng: np.random.Generator, service: Times, load: float) -> Times:
    """(queries,) waiting times before a server that answers one after another, first come first served.

    Queries come at random (Poisson) at `load` × what the server can do. A queue of one server is a walk that never
    goes below nought (Lindley 1952): W[i+1] = max(0, W[i] + S[i] − A[i]), which is the walk minus its lowest point
    so far; so no loop is needed.
    """
    between = rng.exponential(service.mean() / load, len(service) - 1)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - between)])
    return walk - np.minimum.accumulate(walk)


def fan_out(rng: np.random.Generator, draw: Draw, queries: int, shards: int, load: float = 0.0) -> Times:
    """(queries, shards) times in the order in which queries come; with `load` > 0 the wait before each shard included.

    All shards see the same queries at the same moments: one query is one arrival everywhere.
    """
    service = draw(rng, (queries, shards))
    if not load:
        return service
    between = rng.exponential(service.mean() / load, queries - 1)
    walk = np.concatenate([np.zeros((1, shards)), np.cumsum(service[:-1] - between[:, None], axis=0)])
    return service + walk - np.minimum.accumulate(walk, axis=0)


def hedged(times: Times, replica: Times, after: float) -> tuple[Times, float]:
    """Each answer that is not there `after` so many milliseconds is asked of another replica too; the first counts.

    `replica`: the times that the other replicas would take, queues included. Also the share of requests that this adds.
    """
    late = times > after
    return np.where(late, np.minimum(times, after + replica), times), float(late.mean())


def ways(rng: np.random.Generator, draw: Draw, queries: int, load: float) -> tuple[Times, Times, Times, float, float]:
    """16 shards at this load: latency of all, with second tries after p95 (their replicas carry 5 % more), with a
    deadline at twice the median; the share of requests that is added, and that of recall that is lost.
    """
    times = fan_out(rng, draw, queries, 16, load)
    whole = times.max(axis=1)
    replica = fan_out(rng, draw, queries, 16, min(1.05 * load, 0.99))
    second, more = hedged(times, replica, float(np.percentile(times, 95)))
    cut, lost = given_up(times, 2 * float(np.median(whole)))
    return whole, second.max(axis=1), cut, more, lost


def given_up(times: Times, deadline: float) -> tuple[Times, float]:
    """Answers at the deadline without the late shards; also the expected loss of recall.

    Documents lie in shards at random, so a shard holds 1/N of the best ten on average, and the loss is the share of
    shards that are late.
    """
    return np.minimum(times.max(axis=1), deadline), float((times > deadline).mean())


def percentiles(latency: Times) -> list[float]:
    return [float(one) for one in np.percentile(latency, (50, 95, 99, 99.9))]


# -- measuring


def measure(folder: Path, queries: int, documents: int = 100_000) -> dict[str, object]:
    """Processor times of single queries to an HNSW index over the vectors of `index_kinds.py`, as a histogram.

    It is built in `folder` unless it is there already. Not the time on the clock is taken: on a machine that does other
    things too, that measures the others. Stalls are what `Stalling` is for.
    """
    from index_kinds import dense
    from visir.retrieval.kinds import build_index, open_index

    made, asked = dense(documents, queries)
    index = open_index(folder) if folder.is_dir() else build_index(made, "hnsw", folder)
    singles = [asked.select([name]) for name in asked.ids.to_pylist()]
    for single in singles[:50]:
        index.search(single, 10)
    taken = []
    for single in singles:
        start = time.process_time()
        index.search(single, 10)
        taken.append(1000 * (time.process_time() - start))
    return kept(np.array(taken), f"HNSW over {documents:,} vectors of 256 dimensions, ef_search 64, single queries")


def kept(milliseconds: Times, what: str) -> dict[str, object]:
    found = Histogram.of(milliseconds)
    return {
        "what": what,
        "queries": len(milliseconds),
        "edges_ms": [round(float(one), 4) for one in found.edges],
        "counts": found.counts.tolist(),
    }


def read(path: Path) -> Histogram:
    content = json.loads(path.read_text())
    return Histogram(np.array(content["edges_ms"]), np.array(content["counts"]))


# -- the tables and the picture


def tables(draws: dict[str, Draw], queries: int, seed: int = 0) -> str:
    lines: list[str] = []

    def row(*cells: object) -> None:
        lines.append("| " + " | ".join(f"{one:,.2f}" if isinstance(one, float) else str(one) for one in cells) + " |")

    for name, draw in draws.items():
        lines += [f"\n**{name}**: the slowest of N shards, idle (ms)\n",
                  "| shards | p50 | p95 | p99 | p99.9 | a shard's own percentile that is the p99 of all |",
                  "|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
        for shards in SHARDS:
            rng = np.random.default_rng(seed)
            n = max(queries // shards, 4_000)
            row(shards, *percentiles(draw(rng, (n, shards)).max(axis=1)), f"{100 * 0.99 ** (1 / shards):.3f}")
        lines += [f"\n**{name}**: 16 shards, each with a queue of its own (ms)\n",
                  "| load | p50 | p99 | p99 hedged after p95 | more requests | deadline 2 × p50: p99 | recall lost |",
                  "|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
        for load in LOADS:
            rng = np.random.default_rng(seed)
            whole, second, cut, more, lost = ways(rng, draw, queries, load)
            row(load, float(np.median(whole)), *(float(np.percentile(one, 99)) for one in (whole, second)),
                f"{100 * more:.1f} %", float(np.percentile(cut, 99)), f"{100 * lost:.2f} %")  # fmt: skip
    return "\n".join(lines)


def plot(draws: dict[str, Draw], queries: int, path: Path) -> None:
    from visir.reports.plots import DASHES, MARKERS, SERIES, drawing, to_svg
    from visir.storage import write_new

    with drawing(9.2, 3.6, 1, 2) as (figure, (left, right)):
        for number, (name, draw) in enumerate(draws.items()):
            rng = np.random.default_rng(0)
            slowest = [draw(rng, (max(queries // n, 4_000), n)).max(axis=1) for n in SHARDS]
            for which, (percent, width) in enumerate(((50, 1.2), (99, 2.2))):
                left.plot(SHARDS, [np.percentile(one, percent) for one in slowest], color=SERIES[number],
                          linestyle=DASHES[1 - which], marker=MARKERS[number], markersize=4, linewidth=width,
                          label=f"{name}, p{percent}")  # fmt: skip
        left.set(xscale="log", yscale="log", xlabel="shards asked at once", ylabel="latency of the whole, ms")
        left.set_xticks(SHARDS, [str(one) for one in SHARDS])
        left.minorticks_off()
        left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        left.set_title("Idle: the slowest of N")
        draw = next(iter(draws.values()))
        loads = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
        lines: dict[str, list[float]] = {"wait for all": [], "hedged after p95": [], "deadline at 2 × p50": []}
        for load in loads:
            found = ways(np.random.default_rng(0), draw, queries, load)
            for values, latency in zip(lines.values(), found[:3], strict=True):
                values.append(float(np.percentile(latency, 99)))
        for number, (way, values) in enumerate(lines.items()):
            right.plot(loads, values, color=SERIES[number + 2], linestyle=DASHES[number], marker=MARKERS[number],
                       markersize=4, linewidth=2, label=way)  # fmt: skip
        right.set(yscale="log", xlabel="load of each shard", ylabel="p99 of the whole, ms")
        right.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        right.minorticks_off()
        right.set_title(f"16 shards, {next(iter(draws))}")
        left.legend(loc=(0.3, 0.42), fontsize=8)
        right.legend(loc="upper left", fontsize=8)
        write_new(path, to_svg(figure).encode(), replace=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--queries", type=int, default=200_000)
    asked.add_argument("--measured", type=Path, default=HISTOGRAM, help="a histogram that --measure wrote")
    asked.add_argument("--measure", type=Path, help="time an index in this folder, write --measured")
    asked.add_argument("--plot", type=Path)
    given = asked.parse_args()
    if given.measure is not None:
        given.measured.write_text(json.dumps(measure(given.measure, 3_000), indent=1) + "\n")
    draws: dict[str, Draw] = {"measured": read(given.measured).draw, "lognormal with stalls": Stalling().draw}
    print(tables(draws, given.queries))
    if given.plot is not None:
        plot(draws, given.queries, given.plot)


if __name__ == "__main__":
    main()
