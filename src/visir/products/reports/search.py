"""The answer to one question as a table, and as a page of pictures with the tree of where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from visir.products.ask import Answer
from visir.products.reports.pictures import Found, Products, product_thumbnails
from visir.records.catalogue import Catalogue
from visir.reports.blocks import Block, Branch, Code, Paragraph, Tree, inline
from visir.reports.gallery import Strip, Tile
from visir.reports.page import Page, Section, write_page
from visir.reports.table import Cell, Column, Table

PICTURE_BUDGET = 3_000_000
"""Bytes of text that the pictures of a page may take together."""


@dataclass(frozen=True)
class Place:
    """A category in which answers lie: their ranks (at it and below), and the categories under it."""

    name: str
    ranks: tuple[int, ...]
    children: tuple[Place, ...]


def answer_table(catalogue: Catalogue, answer: Answer) -> Table:
    """Rank, score, title and path of every product; whether it is right, where that is known."""
    known = answer.right is not None
    columns = [Column("rank", 0), Column(answer.unit, 4), *([Column("right")] if known else [])]
    columns += [Column("title"), Column("category"), Column("product")]
    rows: list[list[Cell]] = [
        [rank, score, *([bool(one.right)] if known else []), one.title, " › ".join(one.path), one.id]
        for rank, (one, score) in enumerate(_found(catalogue, answer), 1)
    ]
    return Table.of(columns, rows, caption=f"Products for “{answer.query}”", notes=[_said(answer)])


def write_search_page(path: str | Path, catalogue: Catalogue, answer: Answer, *, command: str = "") -> Path:
    """Write the answer to a question as a page of pictures and return its path.

    Args:
        path: The HTML file to write.
        catalogue: What was searched.
        answer: The answer.
        command: The command line that makes the page again.
    """
    products = _found(catalogue, answer)
    pictures = product_thumbnails(catalogue, [product.id for product, _ in products], budget=PICTURE_BUDGET)
    tiles = [
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
    nothing = Paragraph("Nothing was found: no title shares a word with the question.")
    answers: Block = Strip(tiles, is_large=True) if tiles else nothing
    sections = [Section("answers", "Answers", [answers])]
    if tiles:
        lead = Paragraph("The categories of the answers; a number goes to the answer of that rank.", "lead")
        tree = Tree([_branch(place, 0) for place in places([product.path for product, _ in products])])
        sections.append(Section("places", "Where they belong", [lead, tree]))
    if command:
        sections.append(Section("made", "Command", [Code(command)]))
    facts = [inline("{} of <b>{}</b> products", len(tiles), f"{catalogue.products.num_rows:,}"), _said(answer)]
    return write_page(path, Page("category-to-image search", f"“{answer.query}” in {catalogue.name}", sections, facts))


def _branch(place: Place, level: int) -> Branch:
    """A category with links to its answers."""
    links = Markup("").join(inline('<a href="#answer-{}">{}</a> ', rank, rank) for rank in place.ranks[:12])
    cells = [links + ("…" if len(place.ranks) > 12 else "")]
    return Branch(place.name, cells, [_branch(child, level + 1) for child in place.children], is_open=level < 3)


def places(paths: Sequence[Sequence[str]]) -> tuple[Place, ...]:
    """The categories of the answers as a tree: the one with the most answers first, equal ones by the best rank.

    `paths`: the path of names of each answer, in order of rank.
    """
    return _places([(rank, path) for rank, path in enumerate(paths, 1)])


def _places(ranked: Sequence[tuple[int, Sequence[str]]]) -> tuple[Place, ...]:
    inside: dict[str, list[tuple[int, Sequence[str]]]] = {}
    for rank, path in ranked:
        if path:
            inside.setdefault(path[0], []).append((rank, path[1:]))
    made = [Place(name, tuple(rank for rank, _ in own), _places(own)) for name, own in inside.items()]
    return tuple(sorted(made, key=lambda one: (-len(one.ranks), one.ranks[0])))


def _found(catalogue: Catalogue, answer: Answer) -> list[tuple[Found, float]]:
    products = Products(catalogue, [one for one, _ in answer.products])
    right = answer.right
    return [(products.found(one, None if right is None else one in right), score) for one, score in answer.products]


def _said(answer: Answer) -> str:
    if answer.right is None:
        return f"Answered by {answer.system}. No category has this name, so what is right is not known."
    hits = sum(one in answer.right for one, _ in answer.products)
    return (
        f"Answered by {answer.system}. {hits} of {len(answer.products)} belong to a category of this name, which has "
        f"{len(answer.right):,} products."
    )
