"""Matched words: a bar for what each gives to the score."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.reports.page import Block, Paragraph
from visir.reports.plots import SERIES, drawing
from visir.reports.table import Cell, Column, Table, one_line
from visir.reports.views.parts import facts
from visir.reports.views.plot import blocks as plot_blocks
from visir.sparse.common_words import MatchedWords

if TYPE_CHECKING:
    from visir.reports.plot import Plot

SHOWN = 12
"""How many words are drawn."""


def blocks(shown: MatchedWords) -> list[Block]:
    """The score, and the plot."""
    heading = facts(shown.query, shown.answer, f"score {shown.score:.2f}", (len(shown.matches), "common words"))
    return [heading, *(plot_blocks(plot(shown)) if shown.matches else [Paragraph("No common word.", "missing")])]


def table(shown: MatchedWords) -> Table:
    """One row per word: its weights, their product, and its share of the score."""
    rows: list[list[Cell]] = [
        [match.term, match.query, match.document, match.product, 100 * match.share] for match in shown.matches
    ]
    columns = [Column("word"), *(Column(name, 2) for name in ("in the query", "in the answer", "product"))]
    return Table.of([*columns, Column("share, %", 1)], rows)


def arrow(shown: MatchedWords) -> pa.Table:
    """One row per word, with the fields of `Match`."""
    return pa.Table.from_pylist([asdict(match) for match in shown.matches])


def plot(shown: MatchedWords) -> Plot:
    """A bar for each of the words that give most."""
    matches = shown.matches[:SHOWN][::-1]
    with drawing(6.4, 0.9 + 0.3 * len(matches)) as (figure, axes):
        names = [one_line(match.term) for match in matches]
        axes.barh(range(len(matches)), [match.product for match in matches], color=SERIES[0], height=0.62)
        axes.set_yticks(range(len(matches)), names)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("part of the score: weight in the query × weight in the answer")
        return figure
