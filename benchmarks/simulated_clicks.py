"""A simulated log of a shop's search, where relevance and position bias are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, raise_faults
from visir.products import ClickLog
from visir.records import Qrels

Behaviour = Literal["positions", "cascade", "trust"]
ATTRACTION = (0.02, 0.15, 0.4, 0.7)
"""How likely a product of grade 0, 1, 2, 3 is clicked by a visitor who looks at it."""


@dataclass(frozen=True, eq=False)
class SimulatedClicks:
    """A log, and what is true."""

    log: ClickLog  # the impressions
    qrels: Qrels  # the grades, 0 to 3
    grades: NDArray[np.int64]  # (queries, products) the same as numbers
    # (queries, products) the ranking of the search that was logged: rows of products, best first.
    shown: NDArray[np.int64]
    propensities: dict[int, float]  # position to the chance that it is looked at


def simulate_clicks(
    *,
    queries: int = 50,
    products: int = 10,
    searches: int = 200,
    bias: float = 1.0,
    swaps: float = 0.2,
    quality: float = 0.3,
    depth: int = 10,
    behaviour: Behaviour = "positions",
    seed: int = 0,
) -> SimulatedClicks:
    """Simulate the clicks on the first page of a search."""
    faults = [f"depth {depth} is more than {products} products"] * (depth > products)
    faults += [f"swaps must be 0 to 1, not {swaps}"] * (not 0 <= swaps <= 1)
    faults += [f"quality must be 0 to 1, not {quality}"] * (not 0 <= quality <= 1)
    raise_faults(ConfigurationError, "simulated clicks", faults)
    rng = np.random.default_rng(seed)
    grades = rng.choice(4, (queries, products), p=(0.55, 0.2, 0.15, 0.1))
    score = quality * grades + (1 - quality) * rng.normal(size=grades.shape) * 1.5
    shown = np.argsort(-score, axis=1)
    look = 1 / np.arange(1, depth + 1) ** bias
    lists = np.repeat(shown[:, None, :depth], searches, axis=1).reshape(-1, depth)
    for place in range(depth - 1):
        swapped = rng.random(len(lists)) < swaps
        lists[swapped, place : place + 2] = lists[swapped, place : place + 2][:, ::-1]
    query = np.repeat(np.arange(queries), searches)
    attraction = np.array(ATTRACTION)[grades[query[:, None], lists]]
    drawn = rng.random(lists.shape)
    if behaviour == "cascade":
        would = drawn < attraction
        earlier: NDArray[np.int64] = np.cumsum(would, axis=1) - would
        stays = np.cumprod(rng.random(lists.shape) < 0.9, axis=1).astype(np.bool_)
        arrives = np.concatenate([np.ones((len(lists), 1), np.bool_), stays[:, :-1]], axis=1)
        clicked = would & (earlier == 0) & arrives
    else:
        if behaviour == "trust":
            attraction[:, :3] += 0.15 * (1 - attraction[:, :3])
        clicked = drawn < look * attraction
    names = [f"query {row}" for row in range(queries)]
    ids = np.array([[f"p{row}-{column}" for column in range(products)] for row in range(queries)])
    log = ClickLog.of(
        np.repeat(names, searches * depth).tolist(),
        ids[query[:, None], lists].ravel().tolist(),
        np.tile(np.arange(1, depth + 1), len(lists)),
        clicked.ravel(),
    )
    qrels = Qrels.of(np.repeat(names, products).tolist(), ids.ravel().tolist(), grades.ravel(), name="truth")
    return SimulatedClicks(log, qrels, grades, shown, dict(enumerate(look.tolist(), 1)))
