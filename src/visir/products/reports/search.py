"""The answer to one question as a table, and as a page of pictures with the tree of where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from visir.products.ask import Answer
from visir.products.reports.pictures import Found, Products, product_thumbnails
from visir.records.catalogue import Catalogue
from visir.reports.page import write_page
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
    """Write the answer as a single HTML file; returns its path. Same answer, same bytes."""
    found = _found(catalogue, answer)
    return write_page(
        path,
        "categories_search.html.j2",
        room="visir.products.reports",
        title=f"“{answer.query}” in {catalogue.name}",
        answer=answer,
        said=_said(answer),
        size=catalogue.products.num_rows,
        found=found,
        thumbs=product_thumbnails(catalogue, [one.id for one, _ in found], budget=PICTURE_BUDGET),
        places=places([one.path for one, _ in found]),
        command=command,
    )


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
