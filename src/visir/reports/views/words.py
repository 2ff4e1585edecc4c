"""The heaviest words of a picture or a text, and the words that two vectors have in common."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.reports.page import Block, Cards, Paragraph
from visir.reports.plots import PlotMark, dots, plot_blocks
from visir.reports.table import Column, Table, at
from visir.reports.views.parts import facts
from visir.reports.words import word_card
from visir.sparse.explaining import MatchedWords
from visir.sparse.top_terms import TopTerms

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def terms_blocks(shown: TopTerms) -> list[Block]:
    """A card with the picture, or the text, and its words."""
    return [Cards([word_card(shown)], width=21)]


def terms_table(shown: TopTerms) -> Table:
    """One row per word, the heaviest first."""
    own = Column("own", of=lambda term: term[0] in shown.own)
    columns = [Column("word", of=at(0)), Column("weight", 2, of=at(1)), own]
    return Table.over(shown.terms, columns, caption=shown.title)


def terms_arrow(shown: TopTerms) -> pa.Table:
    """One row per word: the word, its weight, and whether the text has it itself."""
    terms, weights = zip(*shown.terms, strict=True) if shown.terms else ((), ())
    own = [term in shown.own for term in terms]
    columns = [pa.array(terms, pa.string()), pa.array(weights, pa.float64()), pa.array(own, pa.bool_())]
    return pa.table(columns, names=["word", "weight", "own"])


# Matched words: a bar for what each gives to the score.


WORDS_DRAWN = 12
"""How many words are drawn."""


def matched_words_blocks(shown: MatchedWords) -> list[Block]:
    """The score, and the plot."""
    heading = facts(shown.query, shown.answer, f"score {shown.score:.2f}", (len(shown.matches), "common words"))
    return [
        heading,
        *(plot_blocks(matched_words_plot(shown)) if shown.matches else [Paragraph("No common word.", "missing")]),
    ]


def matched_words_table(shown: MatchedWords) -> Table:
    """One row per word: its weights, their product, and its share of the score."""
    fields = {"in the query": "query", "in the answer": "document", "product": "product"}
    columns = [Column("word", of="term"), *(Column(name, 2, of=field) for name, field in fields.items())]
    return Table.over(shown.matches, [*columns, Column("share, %", 1, of="share", scale=100)])


def matched_words_arrow(shown: MatchedWords) -> pa.Table:
    """One row per word, with the fields of `Match`."""
    return pa.Table.from_pylist([asdict(match) for match in shown.matches])


def matched_words_plot(shown: MatchedWords) -> Plot:
    """A bar for each of the words that give most."""
    marks = [PlotMark(match.term, [match.product]) for match in shown.matches[:WORDS_DRAWN]]
    axis = "part of the score: weight in the query × weight in the answer"
    return dots(marks, axis, size=(6.4, 0.3), styles={"": {"bar": 0.62}})
