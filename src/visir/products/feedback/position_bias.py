"""How likely a visitor looks at a position: the position-based model, estimated from a log.

P(click on d for q at position k) = θ_k · γ_qd: the visitor looks at position k (the propensity θ_k), and then clicks if
attracted (γ_qd). Chuklin, Markov and de Rijke, Click Models for Web Search (2015), sections 3.3 and 4.3; Wang et al.,
Position Bias Estimation for Unbiased Learning to Rank (WSDM 2018).

The two are told apart by pairs of query and product that were shown at several positions. Where positions have no such
pair in common, their ratio cannot be known, and this is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from visir.errors import ConfigurationError, raise_faults
from visir.products.feedback.click_log import ClickLog

Floats = NDArray[np.float64]
ITERATIONS = 5_000
CLOSE = 1e-5
_TINY = 1e-9


@dataclass(frozen=True)
class PositionBias:
    """The propensity of every position of a log, relative to the largest."""

    propensities: Mapping[int, float]  # position to θ, 0 to 1; the largest is 1
    method: str  # how they were found: "em" or "given"
    iterations: int = 0  # of EM
    pairs: int = 0  # how many pairs of query and product were shown at several positions

    def of(self, positions: NDArray[np.int64]) -> Floats:
        """(m,) the propensity of each position."""
        return np.array([self.propensities[position] for position in positions.tolist()], np.float64)


def estimate_position_bias(log: ClickLog) -> PositionBias:
    """Estimate the propensities by expectation maximisation of the position-based model."""
    # The E-step gives every impression that was not clicked the chance that the visitor looked, θ(1−γ)/(1−θγ), and the
    # chance of being attracted, γ(1−θ)/(1−θγ). The M-step takes means over the impressions of a position and of a pair.
    # It ends when no propensity changes by more than 10⁻⁵.
    positions, column = np.unique(log.position, return_inverse=True)
    pairs, row = np.unique(log.pair, return_inverse=True)
    cells, at = np.unique(row * len(positions) + column, return_inverse=True)
    shown = np.bincount(at).astype(np.float64)
    clicks = _sums(at, log.clicked.astype(np.float64), len(cells))
    row, column = cells // len(positions), cells % len(positions)
    several = int((np.bincount(row) > 1).sum())
    _check(positions, len(pairs), row, column, clicks)
    theta = np.maximum(_sums(column, clicks, len(positions)) / _sums(column, shown, len(positions)), _TINY)
    theta /= theta.max()
    gamma = np.full(len(pairs), 0.5)
    for iteration in range(1, ITERATIONS + 1):
        no_click = np.maximum(1 - theta[column] * gamma[row], _TINY)
        looked = clicks + (shown - clicks) * theta[column] * (1 - gamma[row]) / no_click
        attracted = clicks + (shown - clicks) * gamma[row] * (1 - theta[column]) / no_click
        before = theta
        theta = _sums(column, looked, len(positions)) / _sums(column, shown, len(positions))
        gamma = _sums(row, attracted, len(pairs)) / _sums(row, shown, len(pairs))
        if np.abs(theta / theta.max() - before / before.max()).max() < CLOSE:
            relative = theta / theta.max()
            return PositionBias(dict(zip(positions.tolist(), relative.tolist(), strict=True)), "em", iteration, several)
    raise ConfigurationError(
        f"position bias: EM has not ended after {ITERATIONS:,} iterations.",
        hint="give the propensities of an experiment, or a log with more products at several positions",
    )


def given_position_bias(log: ClickLog, propensities: Mapping[int, float]) -> PositionBias:
    """Take propensities that are known, from an experiment that swapped products at random, for example."""
    positions = np.unique(log.position).tolist()
    faults = [f"position {position}: none given" for position in positions if position not in propensities]
    faults += [
        f"position {position}: {value} is not above 0" for position, value in propensities.items() if not value > 0
    ]
    raise_faults(ConfigurationError, "propensities", faults, hint="one number above 0 for every position of the log")
    largest = max(propensities[position] for position in positions)
    return PositionBias({position: propensities[position] / largest for position in positions}, "given")


def _check(
    positions: NDArray[np.int64], pairs: int, row: NDArray[np.int64], column: NDArray[np.int64], clicks: Floats
) -> None:
    faults = []
    clicked = _sums(column, clicks, len(positions))
    without = positions[clicked == 0].tolist()
    faults += [f"positions without a click: {_listed(without)}"] * bool(without)
    graph = coo_array(
        (np.ones(len(row)), (row, pairs + column)), shape=(pairs + len(positions), pairs + len(positions))
    )
    labels = connected_components(graph, directed=False)[1][pairs:]
    apart = positions[labels != labels[0]].tolist()
    faults += [f"positions that share no query and product with position {positions[0]}: {_listed(apart)}"] * bool(
        apart
    )
    raise_faults(
        ConfigurationError,
        "position bias cannot be estimated",
        faults,
        hint="leave those positions out, give the propensities, or log a search that sometimes swaps products",
    )


def _listed(positions: list[int]) -> str:
    return ", ".join(map(str, positions[:10])) + (" …" if len(positions) > 10 else "")


def _sums(groups: NDArray[np.int64], values: Floats, n: int) -> Floats:
    return np.asarray(np.bincount(groups, values, n), np.float64)
