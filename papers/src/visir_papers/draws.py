"""What a value could have been: draws with other queries, folds, visitors or seeds; statements about figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import combinations, pairwise
from math import ceil, factorial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import visir.stats as stats
from visir.fingerprint import hash_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Labels of values that are points of a curve: a measure, and where on the curve, "ROC-AUC, step 3".

POINT = ", step "


def measure_of(label: str) -> str:
    """ "ROC-AUC" of "ROC-AUC, step 3"; "" where a label is the figure's own."""
    return label.partition(POINT)[0] if POINT in label else ""


def point_of(label: str) -> str:
    """ "step 3" of "ROC-AUC, step 3"; a label without a measure is itself."""
    return POINT[2:] + label.partition(POINT)[2] if POINT in label else label


# Draws of measured values: what a value could have been with other queries, folds, visitors or seeds.

Draws = NDArray[np.float64]
"""(DRAWS,) values in the units of the measured one."""
DRAWS = 1_000
SURE = 0.975
"""The share of draws that decides: that of a two-sided interval of 95 %."""


def unit_sums(units: Sequence[str], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draws of sums: units are drawn with replacement, each with all its rows (the bootstrap)."""
    # units: (n,) the unit of each row: the image of a caption, the category of a query. Its rows are no independent
    # samples.
    # columns: (n, k) what is summed.
    names, member = np.unique(np.asarray(units, dtype=str), return_inverse=True)
    return stats.resampled_sums(columns, member, samples=DRAWS, seed=_seed(names.tolist()))


def unit_means(units: Sequence[str], columns: Mapping[str, NDArray[np.float64]]) -> dict[str, Draws]:
    """Draws of means over rows, as `unit_sums` draws; NaN values do not count."""
    # units: (n,) the unit of each row.
    # columns: Label → (n,) values.
    if not columns:
        return {}
    values = np.stack(list(columns.values()), axis=1)
    defined = ~np.isnan(values)
    sums = unit_sums(units, np.concatenate([np.where(defined, values, 0.0), defined], axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums[:, : len(columns)] / sums[:, len(columns) :]
    return finite(dict(zip(columns, means.T, strict=True)))


def few_units(values: NDArray[np.float64], variance: float, name: str) -> NDArray[np.float64]:
    """Draws of deviations of means over few units: any difference of two has the interval of a paired t-test."""
    # values: (n, k) the value of each of n units (2 at least), in k columns.
    return stats.draws_of_few(values, variance, samples=DRAWS, seed=_seed([name]))


def finite(draws: Mapping[str, Draws]) -> dict[str, Draws]:
    """Those of which every draw is defined."""
    return {label: values for label, values in draws.items() if np.isfinite(values).all()}


def difference_interval(first: Draws | None, second: Draws | None) -> tuple[float, float] | None:
    """The 95 % interval of first − second; None where one of them has no draws."""
    if first is None or second is None:
        return None
    gaps = first - second
    return stats.estimate_of_draws(float(gaps.mean()), gaps).ends  # draws of few units have the tails of t already


def _seed(names: Sequence[str]) -> int:
    return int(hash_json({"units": list(names)})[:12], 16)


# A statement about a figure that holds or does not, and the types of what it reads and of drawings.

Means = Mapping[str, Mapping[str, float]]
"""System → label → the mean over seeds, of one collection."""
PublishedValues = Mapping[tuple[str, str], float]
"""(system, label) → the value that the text prints."""
Drawing = tuple["Figure", str]
"""A figure, and a sentence on how to read it."""
DrawFigure = Callable[[Means, PublishedValues], Iterator[Drawing]]
"""A function that draws the figures of one collection."""


@dataclass(frozen=True)
class TrendCheck:
    """One statement about a figure."""

    statement: str  # what the paper says of the figure
    holds: bool | None  # whether our values agree; None where they cannot tell
    numbers: str  # the values that decide it, as text
    # How often it would hold if what it compares stood in random order; ½ where no order says so (a bound).
    chance: float = 0.5
    sure: float | None = None  # in which share of the draws of the values it holds; None where the values have no draws

    @property
    def agrees(self) -> bool | None:
        """Whether it holds for certain, or for certain not; None where the draws leave it open, or there are none."""
        # A statement *counts* where this is not None.
        if self.holds is None or self.sure is None or 1 - SURE < self.sure < SURE:
            return None
        return self.sure >= SURE


def listed_checks(check: Callable[[Means], Iterator[TrendCheck]]) -> Callable[[Means], list[TrendCheck]]:
    """What yields statements about a figure, as what lists them."""
    return wraps(check)(lambda means: list(check(means)))


def rising(values: Sequence[float]) -> bool:
    """Whether no value is below the one before it."""
    return all(later >= earlier for earlier, later in pairwise(values))


def rising_pairs(values: Sequence[float]) -> tuple[int, int]:
    """In how many pairs the later value is larger, and how many pairs there are."""
    pairs = list(combinations(values, 2))
    return sum(later > earlier for earlier, later in pairs), len(pairs)


def chance_of_order(count: int, share: float = 1.0) -> float:
    """How often values in random order have at least this share of their pairs in a given order."""
    # The numbers of permutations with k pairs out of order are the coefficients of Π (1 + x + … + xⁱ).
    permutations = [1]
    for size in range(2, count + 1):
        longer = [0] * (len(permutations) + size - 1)
        for start in range(size):
            for position, number in enumerate(permutations):
                longer[start + position] += number
        permutations = longer
    pairs = count * (count - 1) // 2
    allowed = pairs - ceil(share * pairs - 1e-9)
    return sum(permutations[: allowed + 1]) / factorial(count)
