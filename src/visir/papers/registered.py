"""What the applications register for studies: acts, what figures show, and how they are drawn, each by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeVar

from visir.applications import applications
from visir.plugins import load_target
from visir.studies.experiment import Experiment
from visir.studies.trend_check import DrawFigures, Means, TrendCheck

T = TypeVar("T")


class Registered(Mapping[str, T]):
    """One field of every application, as one mapping; its values are imported when they are asked for."""

    def __init__(self, field: Literal["acts", "shapes", "drawings"]) -> None:
        self._field = field

    @cached_property
    def _targets(self) -> dict[str, str]:
        return dict(sorted(pair for one in applications() for pair in getattr(one, self._field).items()))

    def __getitem__(self, name: str) -> T:
        return load_target(self._targets[name])  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


ACTS: Mapping[str, type[Experiment]] = Registered("acts")
"""Kinds of cells, by the word that a study's file uses (`run = "train"`)."""
SHAPES: Mapping[str, Callable[[Means], list[TrendCheck]]] = Registered("shapes")
"""What a figure shows, as sentences that come out or do not: for what has no printed values."""
DRAWINGS: Mapping[str, DrawFigures] = Registered("drawings")
"""How the figure of a shape is drawn."""
