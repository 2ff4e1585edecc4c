"""What truncation costs: the counts, the measures of whole and cut texts, and of texts by length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from visir.errors import VisirError
from visir.evaluation.by_label import ByLabel
from visir.evaluation.truncation_cost import Truncation
from visir.reports.page import Block
from visir.reports.table import Cell, Column, Table
from visir.reports.views import by_label, label_differences

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(shown: Truncation) -> list[Block]:
    """All tables."""
    return list(tables(shown))


def tables(shown: Truncation) -> list[Table]:
    """The counts; by truncation, the difference, and by length, where they were measured."""
    parts: list[ByLabel | None] = [shown.by_truncation, shown.by_length]
    measured = [by_label.table(part) for part in parts if part is not None]
    apart = [] if shown.differences is None else [label_differences.table(shown.differences)]
    return [table(shown), *measured[:1], *apart, *measured[1:]]


def table(shown: Truncation) -> Table:
    """How many texts are cut, and what is lost."""
    rows: list[list[Cell]] = [["texts", f"{shown.captions:,}"]]
    if shown.limit is None:
        rows.append(["tokens that are read of a text", "all, or unknown"])
    else:
        lost = f"{100 * shown.words_lost:.1f} %" if shown.cut else "–"
        rows += [
            ["tokens that are read of a text", f"{shown.limit:,}"],
            ["tokens of a text: median", f"{shown.median:g}"],
            ["tokens of the longest text", f"{shown.longest:,}"],
            ["texts that are cut", f"{shown.cut:,} ({100 * shown.share:.1f} %)"],
            ["words of these that are not read", lost],
        ]
    return Table.of([Column("of the texts"), Column("value")], rows, caption=f"{shown.system}: how much is read")


def arrow(shown: Truncation) -> pa.Table:
    """One row: the counts."""
    names = ("system", "limit", "captions", "cut", "share", "words_lost", "median", "longest")
    return pa.table({name: [getattr(shown, name)] for name in names})


def plot(shown: Truncation, measure: str | None = None) -> Plot:
    """One measure by the length of the texts, with 95 % intervals."""
    if shown.by_length is None:
        raise VisirError(f"{shown.system}: nothing was measured by length.", hint="no text is cut, or evaluate=False")
    return by_label.plot(shown.by_length, measure)
