"""Which measures of a result are shown when nobody names some."""

from __future__ import annotations

from visir.evaluation.measures import base_of
from visir.evaluation.measures.measure import recalls_of
from visir.records import Result

CHOICES = ("all_first", "item_score", "group_score")
"""The measures of choice tasks."""


def typical_measures(result: Result) -> list[str]:
    """The measures of choices, or the recall at 1, 5 and 10 that the protocol names, if measured; else every mean."""
    if choices := [name for name in CHOICES if name in result.measures]:
        return choices
    recalls = [name for name in recalls_of(result.protocol.recall) if name in result.measures]
    return recalls or [name for name in result.measures if base_of(name) != "median_rank"]
