"""The weights of a text beside an image that were tried, as a table."""

from __future__ import annotations

from visir.evaluation.text_weight import ChosenWeight
from visir.reports.page import Block
from visir.reports.table import Column, Table


def table(chosen: ChosenWeight) -> Table:
    """One row for each weight; the best one is marked."""
    rows = [
        [f"{weight:g}", f"{value:.4f}", "chosen" if weight == chosen.text_weight else ""]
        for weight, value in chosen.values.items()
    ]
    return Table.of([Column("share of the text"), Column(f"{chosen.measure} on {chosen.split}"), Column("")], rows)


def blocks(chosen: ChosenWeight) -> list[Block]:
    """The table."""
    return [table(chosen)]
