"""Why a picture answers a search, in a notebook: what each word matched, words in common, the nearest captions."""

from __future__ import annotations

from visir.library.explain import ExplainedPicture
from visir.library.reports.tiles import thumbnail
from visir.reports.examples import region_figure
from visir.reports.page import Block, Paragraph
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts


def blocks(explained: ExplainedPicture) -> list[Block]:
    """The scores, the picture with the regions of the words, words in common, captions."""
    parts = [f"{part.label}: {part.score:.4f}" for part in explained.parts.values()]
    shown: list[Block] = [facts(explained.picture.name, explained.query.text or "", *parts)]
    if explained.regions is not None and explained.regions.words:
        small = thumbnail(explained.picture, 300)
        title = "What each word matched in the picture"
        shown.append(region_figure(explained.regions, small, title=title, name=explained.picture.id))
    elif explained.regions is not None and explained.regions.missing:
        shown.append(Paragraph(explained.regions.missing))
    if explained.terms:
        columns = [Column("word"), Column("search", 2), Column("picture", 2), Column("share of the score, %", 0)]
        rows: list[list[Cell]] = [
            [term.term, term.query, term.document, 100 * term.share] for term in explained.terms[:12]
        ]
        shown.append(Table.of(columns, rows, caption="Words in common"))
    if explained.captions:
        columns = [Column("caption"), Column("score", 3)]
        shown.append(Table.of(columns, list(explained.captions), caption="Captions nearest to the picture"))
    return shown
