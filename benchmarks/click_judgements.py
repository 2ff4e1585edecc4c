"""Judgements from clicks: does the correction of position bias recover the order of searches?

    python benchmarks/click_judgements.py [--worlds 10]

The log of one search is simulated (`simulated_clicks.py`): 50 queries, 10 products on the page,
grades 0 to 3. Six searches are measured with nDCG@10 by the true grades, by raw clicks and by corrected clicks: the
search that was logged, and five more that know the grades a little or much. The table has, as means over worlds,

- tau: Kendall's tau of the order of the six searches with the true order
- logged first: in how many % of the worlds the logged search comes first; by the true grades it is the second worst
- theta: the largest error of a propensity

for raw clicks, for clicks corrected with estimated propensities (EM), and with the true ones.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import kendalltau

from simulated_clicks import SimulatedClicks, simulate_clicks
from visir.errors import ConfigurationError
from visir.evaluation.measures import measure
from visir.products import click_judgements
from visir.records import Gallery, Qrels, Run
from visir.retrieval.ranks import ranks_of

QUALITIES = (0.2, 0.4, 0.5, 0.6, 0.7)
"""How much each of the other searches knows of the grades; the logged one knows 0.3."""
WORLDS: dict[str, dict[str, Any]] = {
    "1/k, 20 % swaps, 1,000 searches": {"searches": 1000},
    "1/k, 20 % swaps, 200 searches": {"searches": 200},
    "1/k, 20 % swaps, 50 searches": {"searches": 50},
    "1/k, 2 % swaps, 200 searches": {"searches": 200, "swaps": 0.02},
    "1/k², 20 % swaps, 200 searches": {"searches": 200, "bias": 2.0},
    "no bias, 200 searches": {"searches": 200, "bias": 0.0},
    "cascade, 200 searches": {"searches": 200, "behaviour": "cascade"},
    "trust in the first places, 200 searches": {"searches": 200, "behaviour": "trust"},
    "1/k, the first 10 of 20 products shown": {"searches": 200, "products": 20},
    "1/k, the first 5 of 20 products shown": {"searches": 200, "products": 20, "depth": 5},
}


def run_of(name: str, world: SimulatedClicks, order: np.ndarray) -> Run:
    """A search that ranks the products of each query in this order."""
    queries, products = order.shape
    names = np.repeat([f"query {row}" for row in range(queries)], products)
    ids = [f"p{row}-{column}" for row in range(queries) for column in order[row]]
    scores = np.tile(np.arange(products, 0, -1.0), queries)
    gallery = Gallery.of("text", pa.array(sorted(set(ids))), "all products")
    return Run.ranked(name, "products", names.tolist(), ids, scores, gallery)


def searches_of(world: SimulatedClicks, seed: int) -> list[Run]:
    rng = np.random.default_rng(1000 + seed)
    runs = [run_of("logged", world, world.shown)]
    for quality in QUALITIES:
        score = quality * world.grades + (1 - quality) * rng.normal(size=world.grades.shape) * 1.5
        runs.append(run_of(f"knows {quality}", world, np.argsort(-score, axis=1)))
    return runs


def values(runs: list[Run], qrels: Qrels) -> np.ndarray:
    return np.array([measure(ranks_of(run, qrels), ("ndcg@10",))["ndcg@10"].to_numpy().mean() for run in runs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10)
    arguments = parser.parse_args()
    print("| world | raw: tau | logged first | EM: tau | logged first | theta | known: tau | logged first |")
    print("|---|---|---|---|---|---|---|---|")
    for name, settings in WORLDS.items():
        rows: list[list[float]] = []
        refused = 0
        for seed in range(arguments.worlds):
            world = simulate_clicks(seed=seed, **settings)
            runs = searches_of(world, seed)
            truth = values(runs, world.qrels)
            cells: list[float] = []
            for correction in ("none", "em", world.propensities):
                try:
                    judged = click_judgements(world.log, correction)  # type: ignore[arg-type]
                except ConfigurationError:
                    refused += 1
                    cells += [float("nan")] * (3 if correction == "em" else 2)
                    continue
                measured = values(runs, judged.qrels)
                cells += [float(kendalltau(truth, measured).statistic), 100.0 * (measured.argmax() == 0)]
                if correction == "em":
                    assert judged.bias is not None
                    theta = judged.bias.propensities
                    cells.append(max(abs(theta[at] - world.propensities[at]) for at in theta))
            rows.append(cells)
        means = np.nanmean(rows, axis=0)
        shown = " | ".join(f"{value:.0f}" if at in (1, 3, 6) else f"{value:.2f}" for at, value in enumerate(means))
        print(f"| {name} | {shown} |{f' refused: {refused}' if refused else ''}", flush=True)


if __name__ == "__main__":
    main()
