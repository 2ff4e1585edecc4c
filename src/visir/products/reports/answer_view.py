"""The answer to a question in a notebook: the pictures of the products, best first."""

from __future__ import annotations

from visir.products.reports.search import answer_table, answer_tiles
from visir.products.text_search import ProductAnswer
from visir.reports.page import Block, Paragraph, Strip, inline
from visir.reports.shown import BUDGET
from visir.reports.table import Table


def blocks(answer: ProductAnswer) -> list[Block]:
    """Who answered, and the products."""
    heading = Paragraph(inline("<b>{}</b> in {}, {}", answer.query, answer.catalogue.name, answer.system))
    tiles = answer_tiles(answer, BUDGET)
    nothing = Paragraph("Nothing was found: no product shares a word with the query.")
    return [heading, Strip(tiles, is_large=False) if tiles else nothing]


def table(answer: ProductAnswer) -> Table:
    """Rank, score, title and category of every product."""
    return answer_table(answer)
