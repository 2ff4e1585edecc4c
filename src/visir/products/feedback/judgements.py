"""`click_judgements`: clicks become judgements, corrected for the position at which products were shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from visir.display import Displayed, brief
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.products.feedback.click_log import ClickLog, read_click_log
from visir.products.new_table import write_new_table
from visir.records import Qrels

# How likely a visitor looks at a position: the position-based model, estimated from a log.

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


Correction = Literal["em", "none"]
FLOOR = 0.05
"""No click counts more than 1 / 0.05 = 20 times."""


@dataclass(frozen=True, eq=False, repr=False)
class ClickJudgements(Displayed):
    """Judgements made from clicks. `click_judgements` makes it.

    Args:
        qrels: The judgements; the id of a query is its text.
        bias: The propensities; None without correction.
        impressions: How many impressions were counted.
        rare: How many pairs of query and product were left out, because they were shown too rarely.
        silent: How many queries were left out, because none of their products has enough clicks.
        repeated: How many rows were not counted, because the visitor had seen the product for this query before.
    """

    qrels: Qrels
    bias: PositionBias | None
    impressions: int
    rare: int
    silent: int
    repeated: int = 0

    def __repr__(self) -> str:
        lines = [f"left out: {self.rare:,} pairs shown too rarely, {self.silent:,} queries without clicks"]
        if self.bias is not None:
            shown = [f"{position}: {value:.2f}" for position, value in list(self.bias.propensities.items())[:5]]
            lines.append(f"propensities ({self.bias.method}) {', '.join(shown)}, …")
        return brief(self, f"{len(self.qrels):,} queries, {len(self.qrels.documents):,} judgements", *lines)

    def save(self, path: str | Path) -> Path:
        """Write the judgements as a new table that `visir.collections.read_qrels` reads; nothing is replaced.

        Args:
            path: A file that is not there yet: .csv, .tsv, .jsonl or .parquet.

        Raises:
            FolderError: There is a file already.
        """
        return write_new_table(path, self.qrels.to_arrow(), for_people=False)


def click_judgements(
    log: ClickLog | str | Path,
    correction: Correction | Mapping[int, float] = "em",
    *,
    min_impressions: int = 10,
    min_clicks: int = 1,
    levels: int | None = None,
    floor: float = FLOOR,
) -> ClickJudgements:
    """Turn the clicks of a log into judgements for the evaluation of searches.

    The grade of a product for a query is its click rate with every click weighted by 1 / θ of its position (inverse
    propensity scoring; Joachims, Swaminathan and Schnabel, WSDM 2017), at most 1. If visitors look at positions as the
    position-based model says, it is the rate at which the product would be clicked on the first place.

    Products that the search never showed have no judgement, and no correction makes one. A search that finds such
    products is measured too low.

    Args:
        log: The impressions, or a file that `read_click_log` reads.
        correction: "em" estimates the propensities from the log; {position: propensity} gives them; "none" takes
            clicks as they are.
        min_impressions: A pair of query and product that was shown less often has no judgement.
        min_clicks: A query has judgements if one of its products was clicked this often.
        levels: Turn grades into whole numbers from 0 to this: the rate divided by the largest of the query, times
            `levels`, rounded. For trec_eval, and for measures that only ask whether a grade is above 0.
        floor: Smaller propensities count as this one, so that single clicks far down do not decide. It makes grades
            of products that are shown only there too low.

    Raises:
        ConfigurationError: An option is wrong, no pair is left, or the propensities cannot be estimated.
        CollectionError: The file cannot be read.

    Example:
        >>> log = ClickLog.of(["dress"] * 40, ["a", "b"] * 20, [1, 2] * 20, [1, 1, 0, 0] * 10)
        >>> click_judgements(log, {1: 1.0, 2: 0.5}).qrels.to_dict()
        {'dress': {'a': 0.5, 'b': 1.0}}
    """
    faults = [
        f"{name} must be at least 1, not {value}"
        for name, value in (("min_impressions", min_impressions), ("min_clicks", min_clicks), ("levels", levels))
        if value is not None and value < 1
    ]
    if not 0 < floor <= 1:
        faults.append(f"floor must be above 0 and at most 1, not {floor:g}")
    if isinstance(correction, str) and correction not in ("em", "none"):
        faults.append(f"unknown correction {correction!r} ({nearest(correction, ('em', 'none'))})")
    raise_faults(ConfigurationError, "judgements from clicks", faults)
    if not isinstance(log, ClickLog):
        log = read_click_log(log)
    bias = None
    if isinstance(correction, Mapping):
        bias = given_position_bias(log, correction)
    elif correction == "em":
        bias = estimate_position_bias(log)
    weights = np.ones(len(log)) if bias is None else 1 / np.maximum(bias.of(log.position), floor)
    pairs, at = np.unique(log.pair, return_inverse=True)
    shown, clicks = np.bincount(at), np.bincount(at, log.clicked)
    rates = np.minimum(np.bincount(at, log.clicked * weights) / shown, 1)
    query = pairs // len(log.products)
    enough = shown >= min_impressions
    most = np.zeros(len(log.queries))
    np.maximum.at(most, query[enough], clicks[enough])
    judged = enough & (most[query] >= min_clicks)
    if not judged.any():
        raise ConfigurationError(
            f"judgements from clicks: no pair of {len(pairs):,} has {min_impressions} impressions, and "
            f"{min_clicks} clicks in its query.",
            hint="a longer log, or smaller min_impressions and min_clicks",
            code="no-pair-impressions-clicks",
        )
    grades = rates[judged] if levels is None else _whole(rates[judged], query[judged], levels)
    qrels = Qrels.of(
        [log.queries[row] for row in query[judged]],
        [log.products[row] for row in pairs[judged] % len(log.products)],
        grades,
        name="clicks" if bias is None else f"clicks, corrected ({bias.method})",
    )
    silent = len(log.queries) - len(qrels)
    return ClickJudgements(qrels, bias, len(log), int((~enough).sum()), silent, log.repeated)


def _whole(rates: NDArray[np.float64], query: NDArray[np.int64], levels: int) -> NDArray[np.float64]:
    largest = np.zeros(query.max() + 1)
    np.maximum.at(largest, query, rates)
    return np.asarray(np.floor(levels * rates / largest[query] + 0.5))
