"""The plan of docs/background/scale.md, by hand; and the simulation of shards, against what theory says of it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """A file of benchmarks/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


plan, tail = script("scale_plan"), script("shard_tail")


# -- the plan


def test_a_plan_by_hand() -> None:
    """10⁹ images of 100 dimensions on nodes of 64 GB, of which .75 × 64 = 48 are for the index; 12 bytes for an id."""
    made = plan.Plan(images=1e9, dimension=100, memory=64, usable=0.75, m=16, pq=25, queries=1000, load=0.5, cores=10,
                     id_bytes=12.0)  # fmt: skip
    assert made.vector_bytes() == {"float32": 400, "float16": 200, "int8": 100, "PQ, 25 bytes": 25}
    assert made.graph_bytes() == 128  # 2 × 16 neighbours of 4 bytes
    kinds = made.kinds()
    exact, graph, codes = kinds["exact, float16"], kinds["HNSW, float32"], kinds["HNSW, int8, re-scored"]
    assert (graph.memory, graph.disk, graph.reads) == (528, 0, 0)
    assert (codes.memory, codes.disk, codes.reads) == (228, 200, 100)
    assert made.shards(graph) == 12  # 10⁹ × 540 = 540 GB; 540 / 48 = 11.25
    assert made.shards(exact) == 5  # 212 GB; 212 / 48 = 4.4
    # Exact: 68.5 million scores a second and core at 512 dimensions: × 5.12 at 100, × 10 cores, over 2 × 10⁸ documents
    rate = 137e6 / 2 * 5.12 * 10 / 2e8
    assert made.node_rate("exact, float16", exact, 2e8) == pytest.approx(rate)  # 17.5 a second
    # 1,000 queries a second at half of that: 1000 / 8.77 = 114.1 → 115 copies of each of the five shards
    shards, copies, total = made.nodes("exact, float16", exact)
    assert (shards, copies) == (5, 115) and total == pytest.approx(115 * rate)
    # One query reads 200 × 2 × 10⁸ bytes = 40 GB of memory, at 100 GB/s: longer than the 57 ms of computing
    assert made.milliseconds("exact, float16", exact, 2e8) == pytest.approx(400)
    assert made.month(exact, 5, 115)[0] == 5 * 115 * 730
    # the store: 400 GB; thumbnails: 10,277 GB; items: 500 GB; twice, at .1 a GB
    assert made.month(exact, 5, 115)[1] == pytest.approx(2 * (400 + 10_277 + 500) * 0.1)
    # and three copies of the 200 GB of vectors that re-scoring reads
    assert made.month(codes, 5, 3)[1] == pytest.approx((2 * (400 + 10_277 + 500) + 3 * 200) * 0.1)
    assert plan.Plan(images=3.6e6 * 12, gpus=4, gpu_rate=1000).encoding_hours() == pytest.approx(3)
    assert plan.Plan(images=3.6e6 * 12, upload=1000, uploads=4).upload_hours() == pytest.approx(3)
    assert made.build_hours("sparse, inverted", 100) == pytest.approx(
        plan.MEASURED["sparse build, core seconds a million"] * 10 / 3600
    )  # 10 million a shard, one core
    assert made.build_hours("exact, float16", 5) == 0


def test_reads_from_disk_bound_the_rate_and_add_to_the_time() -> None:
    """100 reads a query: 500,000 a second are 5,000 queries; 32 at once of 100 µs are 312.5 µs."""
    made = plan.Plan()
    for name, kind in made.kinds().items():
        cores = made.core_rate(name, 1e6) * made.cores
        assert made.node_rate(name, kind, 1e6) == pytest.approx(min(cores, 5_000) if kind.reads else cores)
        if kind.reads:
            assert made.milliseconds(name, kind, 1e6) == pytest.approx(1000 / made.core_rate(name, 1e6) + 0.3125)


@pytest.mark.parametrize(("million", "name"), [(1, "a million"), (10, "ten million")])
def test_the_curve_of_ivf_leads_through_what_was_measured(million: int, name: str) -> None:
    made = plan.Plan(images=million * 1e6, cores=1)
    rate, build = plan.MEASURED[f"ivf q/s, {name}, one core"], plan.MEASURED[f"ivf build, core seconds, {name}"]
    assert made.core_rate("ivf", million * 1e6) == pytest.approx(rate)
    assert made.build_hours("ivf", 1) == pytest.approx(build / 0.7 / 3600)


def test_what_is_lost_by_asking_shards_for_fewer() -> None:
    made = plan.Plan()
    assert made.late_ones(1, 10) == made.late_ones(7, 10) == 0
    # Two shards, best two, one asked of each: both in one shard with probability 1/2; then one of two is lost: 1/4.
    assert made.late_ones(2, 1, k=2) == pytest.approx(0.25)
    # Three shards, best two: both in one with probability 1/3; 1/3 × 1/2.
    assert made.late_ones(3, 1, k=2) == pytest.approx(1 / 6)
    rng = np.random.default_rng(0)
    where = rng.integers(0, 16, (20_000, 10))
    counts = np.stack([(where == shard).sum(axis=1) for shard in range(16)])
    lost = np.maximum(counts - 2, 0).sum(axis=0).mean() / 10
    assert made.late_ones(16, 2) == pytest.approx(lost, rel=0.05)


def test_the_page_shows_what_the_script_prints() -> None:
    page = (ROOT / "docs" / "background" / "scale.md").read_text()
    for options in ({"images": 1e7}, {"images": 1e9, "memory": 256.0, "cores": 64, "node_hour": 4.0, "gpus": 64}):
        rows = [line for line in plan.report(plan.Plan(**options)).splitlines() if line.startswith("| ")]
        missing = [row for row in rows if row not in page]
        assert not missing, missing


def test_measured_figures_are_those_of_the_pages() -> None:
    indexes, speed = ((ROOT / "docs" / "background" / name).read_text() for name in ("indexes.md", "speed.md"))
    engines = (ROOT / "docs" / "background" / "engines.md").read_text()
    measured = plan.MEASURED
    # | a million documents | q/s | single | recall | bytes a document, built in s |
    at = indexes.index("| a million documents |")
    row = next(line for line in indexes[at:].splitlines() if line.startswith("| inverted, expanded, `budget=160000` |"))
    _, rate, _, recall, index = (cell.strip() for cell in row.split("|")[1:-1])
    size, build = (float(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", index))
    assert size == measured["sparse bytes a document"] and build == measured["sparse build, core seconds a million"]
    assert float(rate.replace(",", "")) == measured["sparse expanded q/s, a million, one core"]
    assert recall == plan.Plan().kinds()["sparse, inverted"].recall
    assert "HNSW answers 3,842 a second at .992" in engines and measured["hnsw recall there"] == 0.992
    assert "137 million scores a second" in speed and "| **visir** | 98.9 |" in speed


# -- the simulation


def test_the_slowest_of_n_is_the_nth_power_of_the_distribution() -> None:
    """P(max ≤ t) = F(t)^N, for the exponential and for what was measured."""
    rng = np.random.default_rng(1)
    for shards in (4, 16):
        slowest = rng.exponential(1.0, (40_000, shards)).max(axis=1)
        for t in (1.0, 2.0, 4.0):
            assert (slowest <= t).mean() == pytest.approx((1 - np.exp(-t)) ** shards, abs=0.01)
        draw = tail.Histogram(np.array([1.0, 2.0, 4.0]), np.array([3, 1])).draw
        # three quarters evenly in 1–2, a quarter in 2–4: F(3) = 3/4 + 1/4 × 1/2 = 7/8
        found = tail.fan_out(rng, draw, 40_000, shards).max(axis=1)
        assert (found <= 3.0).mean() == pytest.approx((7 / 8) ** shards, abs=0.01)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_queue_of_exponential_times_is_m_m_1(load: float) -> None:
    """Mean wait ρ/(1 − ρ) in service times; P(wait and service ≤ t) = 1 − exp(−(1 − ρ) t)."""
    rng = np.random.default_rng(2)
    service = rng.exponential(1.0, 400_000)
    waited = tail.waits(rng, service, load)
    assert waited.mean() == pytest.approx(load / (1 - load), rel=0.05)
    assert (waited == 0).mean() == pytest.approx(1 - load, abs=0.01)
    for t in (1.0, 3.0):
        assert (waited + service <= t).mean() == pytest.approx(1 - np.exp(-(1 - load) * t), abs=0.01)


def test_the_queue_without_a_loop_is_the_queue_with_one() -> None:
    rng = np.random.default_rng(3)
    service = rng.gamma(2.0, 0.5, 300)
    found = tail.waits(np.random.default_rng(4), service, 0.8)
    between = np.random.default_rng(4).exponential(service.mean() / 0.8, 299)
    wait = [0.0]
    for took, gap in zip(service, between, strict=False):
        wait.append(max(0.0, wait[-1] + took - gap))
    assert found.tolist() == pytest.approx(wait[:300], abs=1e-9)
    whole = tail.fan_out(np.random.default_rng(5), lambda rng, shape: rng.exponential(1, shape), 200_000, 2, 0.5)
    # each shard alone is M/M/1: the mean of wait and service is 1/(1 − ρ) = 2
    assert whole.mean(axis=0) == pytest.approx([2.0, 2.0], rel=0.05)


def test_second_tries_and_deadlines_by_hand() -> None:
    times = np.array([[1.0, 9.0], [1.0, 2.0]])
    second, more = tail.hedged(times, np.full((2, 2), 1.5), 3.0)
    assert second.tolist() == [[1.0, 4.5], [1.0, 2.0]] and more == 0.25  # asked again at 3, answered 1.5 later
    latency, lost = tail.given_up(times, 5.0)
    assert latency.tolist() == [5.0, 2.0] and lost == 0.25  # one of four answers is late
    stalls = tail.Stalling(median=1.0, spread=0.0, share=0.25, stall=10.0).draw(np.random.default_rng(0), (10_000,))
    assert set(np.unique(stalls)) == {1.0, 11.0} and (stalls > 5).mean() == pytest.approx(0.25, abs=0.02)


def test_a_histogram_keeps_the_distribution(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    times = np.exp(rng.normal(0, 0.4, 5_000))
    (tmp_path / "kept.json").write_text(__import__("json").dumps(tail.kept(times, "made up")))
    drawn = tail.read(tmp_path / "kept.json").draw(rng, (50_000,))
    assert np.percentile(drawn, (5, 50, 95)) == pytest.approx(np.percentile(times, (5, 50, 95)), rel=0.03)
    again = [tail.tables({"x": tail.Stalling().draw}, 4_000) for _ in range(2)]
    assert again[0] == again[1]
