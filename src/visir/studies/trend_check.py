"""A statement about a figure that holds or does not, and the types of what it reads and of drawings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import ceil, factorial
from typing import TYPE_CHECKING

from visir.studies.draws import SURE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
