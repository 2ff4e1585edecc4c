"""What a figure shows, as sentences that come out or do not: for what has no printed values."""

from __future__ import annotations

from collections.abc import Callable

from visir.studies.papers.shapes.ltd import ltd_figure_2
from visir.studies.papers.shapes.shape import Means, Shape
from visir.studies.papers.shapes.shortcuts import figure_4_5
from visir.studies.papers.shapes.sparse import figure_3_2, table_3_4

SHAPES: dict[str, Callable[[Means], list[Shape]]] = {
    "figure-3-2": figure_3_2,
    "figure-4-5": figure_4_5,
    "ltd-figure-2": ltd_figure_2,
    "table-3-4": table_3_4,
}

__all__ = ["SHAPES", "Means", "Shape"]
