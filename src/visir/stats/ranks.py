"""Which place a system has among others, with what is not known about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visir.errors import VisirError
from visir.stats.means import Floats, check_finite, check_level, numbers, units_of

FEWEST_FOR_PLACES = 10
"""Units below which no places are told: the largest of many t of so few has no distribution that could be relied on."""


_FEW = 20
"""Degrees of freedom below which draws from the units know too little of how alike the systems are: with ten units and
thirty systems a third of the tables would have been wrong. There each pair gets its share of the error (Bonferroni)."""


@dataclass(frozen=True, eq=False)
class Places:
    """The places of systems, all of them right at once with the probability `level`.

    Attributes:
        means: (k,) the mean of each system.
        best: (k,) the best place that each system may have, from 1.
        worst: (k,) the worst one.
        differs: (k, k) whether two systems differ.
        units: How many independent units there are.
        level: How often all of it is right.
    """

    means: Floats
    best: NDArray[np.int64]
    worst: NDArray[np.int64]
    differs: NDArray[np.bool_]
    units: int
    level: float


def places(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    lower_is_better: bool = False,
    level: float = 0.95,
    samples: int = 2_000,
    seed: int = 0,
) -> Places:
    """Say which places systems have among one another, with intervals that hold for all of them at once.

    A table that sorts systems by their means says more than the queries do: neighbours are often not different. The
    places of a system go from 1 + the number of systems that are better than it for certain to k − the number of those
    that are worse for certain. Every pair is tested; the largest of all their values, drawn from the units with all
    systems together, says how large a t must be. So the answers to the same queries make systems alike, as in a paired
    test, and thousands of pairs cost less than Bonferroni's correction does, which is used below 20 degrees of freedom.
    It assumes that means over units are about normal, and ten units at least; the degrees of freedom are those of the
    t-test.

    Args:
        values: (k, n) one row for each system, one value per query.
        clusters: (n,) the unit of each query: the image whose captions they are. None takes each query for its own.
        lower_is_better: Whether a smaller mean has the better place.
        level: How often all places are to be right at once, between 0 and 1.
        samples: How many draws of the largest t.
        seed: Of the draws.

    Returns:
        The places.

    Raises:
        VisirError: There are fewer than two systems or ten units, or a value is not finite.

    Source:
        Mogstad, Romano, Shaikh and Wilhelm, "Inference for ranks with applications to mobility across neighbourhoods
        and academic achievement across countries", Review of Economic Studies 91(1), 2024, sections 3.1 and 3.4.

    Example:
        >>> import numpy as np
        >>> from visir import stats
        >>> easy = np.random.default_rng(0).random(400)  # how easy each query is, for all systems
        >>> placed = stats.places([easy < 0.7, easy < 0.69, easy < 0.4])
        >>> placed.best.tolist(), placed.worst.tolist()
        ([1, 1, 3], [2, 2, 3])
    """
    check_level(level)
    array = numbers(values)
    check_finite(array)
    if array.ndim != 2 or len(array) < 2:
        raise VisirError("places are of two systems or more.", hint="(systems, queries) values", code="places-of-one")
    sums, sizes = array, np.ones(array.shape[1])
    if clusters is not None:
        member = units_of(clusters, array.shape[1])
        sums, sizes = np.stack([np.bincount(member, row) for row in array]), np.bincount(member).astype(np.float64)
    count, total = len(sizes), float(sizes.sum())
    if count < FEWEST_FOR_PLACES:
        raise VisirError(
            f"{count} independent units are too few for places: at least {FEWEST_FOR_PLACES}.",
            hint="more queries, or images",
            code="places-of-few",
        )
    means = sums.sum(axis=1) / total
    # The jackknife's error, as that of the paired t-test: each mean without one unit.
    gaps = (sums.sum(axis=1, keepdims=True) - sums) / (total - sizes) - means[:, None]
    gaps *= np.sqrt((count - 1) / count)
    products = gaps @ gaps.T
    squares = np.diag(products)
    variance = squares[:, None] + squares[None, :] - 2 * products
    # What is left of equal values is rounding. Systems that differ by the same in every unit differ for certain.
    spread = variance > 1e-12 * (squares[:, None] + squares[None, :])
    errors = np.sqrt(np.where(spread, variance, 1.0))
    differences = means[:, None] - means[None, :]
    far = np.where(spread, np.abs(differences) / errors, np.where(np.abs(differences) > 1e-12, np.inf, 0.0))
    differs = far > _largest(gaps, errors, spread, total**2 / float((sizes**2).sum()) - 1, level, samples, seed)
    better = differs & ((differences < 0) != lower_is_better)  # the column's system is better than the row's
    best, worst = 1 + better.sum(axis=1), len(array) - better.sum(axis=0)
    return Places(means, best, worst, differs, count, level)


def _largest(
    gaps: Floats, errors: Floats, spread: NDArray[np.bool_], freedom: float, level: float, samples: int, seed: int
) -> float:
    """What the largest t of all pairs exceeds in a share of 1 − `level`, when no two systems differ."""
    from scipy.special import ndtr, stdtrit

    rows, columns = np.nonzero(np.triu(spread, 1))
    if len(rows) == 0:
        return 0.0
    if freedom < _FEW:
        return float(-stdtrit(freedom, (1 - level) / 2 / len(rows)))
    rng = np.random.default_rng(seed)
    # A normal weight for each unit gives differences with the covariances of the systems.
    drawn = rng.standard_normal((samples, gaps.shape[1])) @ gaps.T
    scale = errors[rows, columns]
    step = max(1, 2_000_000 // len(rows))
    largest = [
        (np.abs(part[:, rows] - part[:, columns]) / scale).max(axis=1)
        for part in (drawn[start : start + step] for start in range(0, samples, step))
    ]
    # The errors of few units are uncertain, those of each pair in its own way: the level that the largest normal value
    # leaves to one pair is asked of t. One draw of the error for all pairs at once would promise too much.
    each = float(ndtr(-float(np.quantile(np.concatenate(largest), level))))
    return float(-stdtrit(freedom, each))
