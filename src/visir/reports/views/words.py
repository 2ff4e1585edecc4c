"""The heaviest words of a picture or a text: the heavier, the larger."""

from __future__ import annotations

import pyarrow as pa

from visir.reports.page import Block, Cards
from visir.reports.table import Cell, Column, Table
from visir.reports.words import word_card
from visir.sparse.top_terms import TopTerms


def blocks(shown: TopTerms) -> list[Block]:
    """A card with the picture, or the text, and its words."""
    return [Cards([word_card(shown)], width=21)]


def table(shown: TopTerms) -> Table:
    """One row per word, the heaviest first."""
    rows: list[list[Cell]] = [[term, weight, term in shown.own] for term, weight in shown.terms]
    return Table.of([Column("word"), Column("weight", 2), Column("own")], rows, caption=shown.title)


def arrow(shown: TopTerms) -> pa.Table:
    """One row per word: the word, its weight, and whether the text has it itself."""
    terms, weights = zip(*shown.terms, strict=True) if shown.terms else ((), ())
    own = [term in shown.own for term in terms]
    columns = [pa.array(terms, pa.string()), pa.array(weights, pa.float64()), pa.array(own, pa.bool_())]
    return pa.table(columns, names=["word", "weight", "own"])
