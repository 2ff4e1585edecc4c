"""What applications register for studies, each by name: experiments, trend checks, drawings of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeVar

from visir.plugins import applications, load_target
from visir.studies.experiment import DrawFigure, Experiment, Means, TrendCheck

T = TypeVar("T")


class ApplicationRegistry(Mapping[str, T]):
    """One field of every application as one mapping; a value is imported when it is first used."""

    def __init__(self, field: Literal["experiments", "trend_checks", "drawings"]) -> None:
        self._field = field

    @cached_property
    def _targets(self) -> dict[str, str]:
        return dict(
            sorted(pair for application in applications() for pair in getattr(application, self._field).items())
        )

    def __getitem__(self, name: str) -> T:
        return load_target(self._targets[name])  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


EXPERIMENTS: Mapping[str, type[Experiment]] = ApplicationRegistry("experiments")
"""Kinds of experiments, by the word that a study's file uses (`experiment = "train"`)."""
TREND_CHECKS: Mapping[str, Callable[[Means], list[TrendCheck]]] = ApplicationRegistry("trend_checks")
"""What the paper says of a figure, as statements that hold or do not: for figures without printed values."""
DRAWINGS: Mapping[str, DrawFigure] = ApplicationRegistry("drawings")
"""Functions that draw a figure, by the name of its trend checks."""
