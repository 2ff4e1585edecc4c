"""A comparison: a sentence that says what differs, and the table of differences."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.evaluation.compare import Comparison, Difference
from visir.reports.page import Block, Bullets, Paragraph, inline
from visir.reports.plots import difference_dots
from visir.reports.table import Table
from visir.reports.tables import comparison_table

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(comparison: Comparison) -> list[Block]:
    """The verdict, and the table with its notes."""
    verdicts = [
        inline("<b>{}</b> against <b>{}</b>: {}.", system, comparison.systems[0], comparison.verdict(system))
        for system in comparison.systems[1:]
    ]
    first: list[Block] = [Paragraph(verdicts[0])] if len(verdicts) == 1 else [Bullets(verdicts)]
    return [*first, replace(comparison_table(comparison), caption="")]


def table(comparison: Comparison) -> Table:
    """The differences, one row for each system, task and measure."""
    return comparison_table(comparison)


def arrow(comparison: Comparison) -> pa.Table:
    """One row per difference, with the fields of `Difference`: fractions as they are."""
    names = list(Difference.__dataclass_fields__)
    return pa.Table.from_pylist([asdict(difference) for difference in comparison.differences]).select(names)


def plot(comparison: Comparison) -> Plot:
    """Each difference with its 95 % interval, for measures that are fractions and `rsum`."""
    return difference_dots(comparison)
