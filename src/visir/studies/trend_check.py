"""What a figure's sentence is, what it is looked at in, and how a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Means = Mapping[str, Mapping[str, float]]
"""System → label → the mean over seeds, of one collection."""
PublishedValues = Mapping[tuple[str, str], float]
"""(system, label) → what the text prints."""
Drawing = tuple[str, str]
"""An SVG document, and a sentence on how to read it."""
DrawFigures = Callable[[Means, PublishedValues], Iterator[Drawing]]
"""How the figures of one collection are drawn."""


@dataclass(frozen=True)
class TrendCheck:
    """What a figure says, whether it came out (None where it could not be looked at), and the numbers."""

    says: str
    came_out: bool | None
    numbers: str


def rising(values: Sequence[float]) -> bool:
    """Whether no value is below the one before it."""
    return all(later >= earlier for earlier, later in pairwise(values))
