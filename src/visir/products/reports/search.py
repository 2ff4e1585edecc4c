"""The answer to one question as a table, and as a page of pictures with the tree of where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from visir.products.reports.categories import Products, ShownProduct, product_thumbnails
from visir.products.text_search import ProductAnswer
from visir.records.catalogue import Catalogue
from visir.reports.page import Block, Branch, Code, Page, Paragraph, Section, Strip, Tile, Tree, inline, write_page
from visir.reports.shown import BUDGET
from visir.reports.table import Column, Table, at

PICTURE_BUDGET = 3_000_000
"""Bytes of text that the pictures of a page may take together."""


@dataclass(frozen=True)
class CategoryPlace:
    """A category in which answers lie: their ranks (at it and below), and the categories under it."""

    name: str
    ranks: tuple[int, ...]
    children: tuple[CategoryPlace, ...]


def table(answer: ProductAnswer) -> Table:
    """Rank, score, title and path of every product; whether it is right, where that is known."""
    columns = [
        *(Column("rank", 0, of=at(0)), Column(answer.unit, 4, of=at(2))),
        *([Column("right", of=lambda row: bool(row[1].right))] if answer.right is not None else []),
        Column("title", of=at(1, "title")),
        Column("category", of=lambda row: " › ".join(row[1].path)),
        Column("product", of=at(1, "id")),
    ]
    rows = [(rank, *shown) for rank, shown in enumerate(_shown_products(answer.catalogue, answer), 1)]
    notes = [*map(_sentence, answer.changes), _summary(answer)]
    return Table.over(rows, columns, caption=f"Products for “{answer.query}”", notes=notes)


def answer_tiles(answer: ProductAnswer, budget: int) -> list[Tile]:
    """A tile for each product, best first."""
    products = _shown_products(answer.catalogue, answer)
    pictures = product_thumbnails(answer.catalogue, [product.id for product, _ in products], budget=budget)
    return [
        Tile(
            product.title,
            pictures[product.id],
            product.title,
            f"{rank} · {score:.3f}",
            product.right,
            lines=[" › ".join(product.path)],
            anchor=f"answer-{rank}",
        )
        for rank, (product, score) in enumerate(products, 1)
    ]


def write_search_page(path: str | Path, answer: ProductAnswer, *, command: str = "") -> Path:
    """Write the answer to a question as a page of pictures and return its path."""
    products = _shown_products(answer.catalogue, answer)
    tiles = answer_tiles(answer, PICTURE_BUDGET)
    nothing = Paragraph("Nothing was found: no product shares a word with the query.")
    answers: Block = Strip(tiles, is_large=True) if tiles else nothing
    sections = [Section("answers", "Answers", [answers])]
    if tiles:
        lead = Paragraph("The categories of the answers; a number goes to the answer of that rank.", "lead")
        tree = Tree([_branch(place, 0) for place in places([product.path for product, _ in products])])
        sections.append(Section("places", "Where they belong", [lead, tree]))
    if command:
        sections.append(Section("made", "Command", [Code(command)]))
    facts = [
        inline("{} of <b>{}</b> products", len(tiles), f"{answer.catalogue.products.num_rows:,}"),
        *map(_sentence, answer.changes),
        _summary(answer),
    ]
    return write_page(
        path, Page("category-to-image search", f"“{answer.query}” in {answer.catalogue.name}", sections, facts)
    )


def _branch(place: CategoryPlace, level: int) -> Branch:
    """A category with links to its answers."""
    links = Markup("").join(inline('<a href="#answer-{}">{}</a> ', rank, rank) for rank in place.ranks[:12])
    cells = [links + ("…" if len(place.ranks) > 12 else "")]
    return Branch(place.name, cells, [_branch(child, level + 1) for child in place.children], is_open=level < 3)


def places(paths: Sequence[Sequence[str]]) -> tuple[CategoryPlace, ...]:
    """The categories of the answers as a tree: the one with the most answers first, equal ones by the best rank."""
    return _places([(rank, path) for rank, path in enumerate(paths, 1)])


def _places(ranked: Sequence[tuple[int, Sequence[str]]]) -> tuple[CategoryPlace, ...]:
    inside: dict[str, list[tuple[int, Sequence[str]]]] = {}
    for rank, path in ranked:
        if path:
            inside.setdefault(path[0], []).append((rank, path[1:]))
    tree = [CategoryPlace(name, tuple(rank for rank, _ in own), _places(own)) for name, own in inside.items()]
    return tuple(sorted(tree, key=lambda place: (-len(place.ranks), place.ranks[0])))


def _shown_products(catalogue: Catalogue, answer: ProductAnswer) -> list[tuple[ShownProduct, float]]:
    products = Products(catalogue, [product for product, _ in answer.products])
    right = answer.right
    return [
        (products.product(product, None if right is None else product in right), score)
        for product, score in answer.products
    ]


def _sentence(change: str) -> str:
    return f"{change[:1].upper()}{change[1:]}."


def _summary(answer: ProductAnswer) -> str:
    if answer.right is None:
        return f"Answered by {answer.system}. No category has this name, so what is right is not known."
    hits = sum(product in answer.right for product, _ in answer.products)
    return (
        f"Answered by {answer.system}. {hits} of {len(answer.products)} belong to a category of this name, which has "
        f"{len(answer.right):,} {'product' if len(answer.right) == 1 else 'products'}."
    )


# The answer to a question in a notebook: the pictures of the products, best first.


def blocks(answer: ProductAnswer) -> list[Block]:
    """Who answered, and the products."""
    heading = Paragraph(inline("<b>{}</b> in {}, {}", answer.query, answer.catalogue.name, answer.system))
    tiles = answer_tiles(answer, BUDGET)
    nothing = Paragraph("Nothing was found: no product shares a word with the query.")
    return [heading, Strip(tiles, is_large=False) if tiles else nothing]
