"""Measures: what a ranking is worth, from the ranks of its positives alone."""

from visir.evaluation.measures.measure import aggregate, measure, rsum
from visir.evaluation.measures.registry import (
    DEFAULT_MEASURES,
    MEASURES,
    Measure,
    Named,
    Positives,
    base_of,
    is_called,
    parse,
    read_measure,
)

__all__ = [
    "DEFAULT_MEASURES",
    "MEASURES",
    "Measure",
    "Named",
    "Positives",
    "aggregate",
    "base_of",
    "is_called",
    "measure",
    "parse",
    "read_measure",
    "rsum",
]
