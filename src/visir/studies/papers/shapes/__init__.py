"""What a figure shows, as sentences that come out or do not: for what has no printed values."""

from __future__ import annotations

from collections.abc import Callable

from visir.studies.papers.shapes.categories import figure_7_2
from visir.studies.papers.shapes.ltd import ltd_figure_2
from visir.studies.papers.shapes.prediction import figure_6_6, figure_6_7
from visir.studies.papers.shapes.sessions import figure_6_2, figure_6_3, figure_6_4, figure_6_5
from visir.studies.papers.shapes.shape import Means, Shape
from visir.studies.papers.shapes.shortcuts import figure_4_5
from visir.studies.papers.shapes.sparse import figure_3_2, table_3_4

SHAPES: dict[str, Callable[[Means], list[Shape]]] = {
    "figure-3-2": figure_3_2,
    "figure-4-5": figure_4_5,
    "figure-6-2": figure_6_2,
    "figure-6-3": figure_6_3,
    "figure-6-4": figure_6_4,
    "figure-6-5": figure_6_5,
    "figure-6-6": figure_6_6,
    "figure-6-7": figure_6_7,
    "figure-7-2": figure_7_2,
    "ltd-figure-2": ltd_figure_2,
    "table-3-4": table_3_4,
}

__all__ = ["SHAPES", "Means", "Shape"]
