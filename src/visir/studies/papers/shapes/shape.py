"""What a figure's sentence is, and what it is looked at in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Means = Mapping[str, Mapping[str, float]]
"""System → label → the mean over seeds, of one collection."""


@dataclass(frozen=True)
class Shape:
    """What a figure says, whether it came out (None where it could not be looked at), and the numbers."""

    says: str
    came_out: bool | None
    numbers: str


def rising(values: Sequence[float]) -> bool:
    """Whether no value is below the one before it."""
    return all(later >= earlier for earlier, later in pairwise(values))
