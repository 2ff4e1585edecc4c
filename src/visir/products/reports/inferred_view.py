"""Inferred categories as a table: each product with its likely category and the confidence."""

from __future__ import annotations

from visir.products.inference import InferredCategories, LikelyCategory
from visir.reports.page import Block
from visir.reports.shown import cut
from visir.reports.table import Column, Table

SHOWN = 20
"""Rows on a screen; the written table has all."""


def blocks(inferred: InferredCategories) -> list[Block]:
    """The first products, and what was reached."""
    return [shortened(inferred)]


def table(inferred: InferredCategories) -> Table:
    """Every product."""
    return _table(inferred, len(inferred.products))


def shortened(inferred: InferredCategories) -> Table:
    """The first products."""
    return _table(inferred, SHOWN)


def _table(inferred: InferredCategories, most: int) -> Table:
    columns = [
        *(Column("product", of="id"), Column("title", of=lambda product: cut(product.title))),
        Column("category", of=lambda product: " › ".join(product.answer.path) if product.answer else None),
        Column("confidence", 2, of=lambda product: product.answer and product.answer.confidence),
        Column("else", of=lambda product: _named(product.others[0]) if product.others else None),
    ]
    total = len(inferred.products)
    notes = [f"{inferred.answered:,} of {total:,} products have an answer. {inferred.reached}"]
    notes += inferred.notes
    if inferred.silent:
        notes.append(f"{inferred.silent:,} have nothing that {inferred.system} reads.")
    if total > most:
        notes.append(f"The first {most} of {total:,} products.")
    return Table.over(
        inferred.products[:most], columns, caption=f"Categories inferred by {inferred.system}", notes=notes
    )


def _named(category: LikelyCategory) -> str:
    return f"{' › '.join(category.path)} ({category.confidence:.2f})"
