"""A statement about a figure that holds or does not, and the types of what it reads and of drawings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

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
    """One statement about a figure.

    Args:
        statement: What the paper says of the figure.
        holds: Whether our values agree; None where they cannot tell.
        numbers: The values that decide it, as text.
    """

    statement: str
    holds: bool | None
    numbers: str


def rising(values: Sequence[float]) -> bool:
    """Whether no value is below the one before it.

    Example:
        >>> rising([1.0, 1.0, 2.0]), rising([2.0, 1.0])
        (True, False)
    """
    return all(later >= earlier for earlier, later in pairwise(values))
