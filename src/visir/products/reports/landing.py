"""A landing page as HTML: for each category its products with picture, title and price, and related ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visir.products.landing import LandingCategory, LandingPage
from visir.products.reports.categories import Products, product_thumbnails
from visir.reports.page import Block, Code, Page, Paragraph, Section, Strip, Thumbnail, Tile, inline, write_page
from visir.reports.shown import BUDGET
from visir.reports.table import Column, Table, at

PICTURE_BUDGET = 3_000_000
"""Bytes of text that the pictures of a page may take together."""


def write_landing_page(path: str | Path, landing: LandingPage, *, title: str = "", command: str = "") -> Path:
    """Write a landing page as one HTML file, and return its path. Another file of that name is not replaced.

    Args:
        path: The HTML file to write.
        landing: What is shown.
        title: The heading; "" takes the names of the categories.
        command: The command line that makes the page again.

    Raises:
        FolderError: There is a file already that is no unchanged page of visir's.

    Example:
        >>> import tempfile
        >>> from visir.products import landing_page
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_landing_page(f"{folder}/dogs.html", landing_page("generated:50", "Dogs"))
        ...     "Animals › Dogs: 2 products" in page.read_text()
        True
    """
    sections = [
        Section(f"category-{number}", category.path[-1], blocks)
        for number, (category, blocks) in enumerate(landing_blocks(landing, PICTURE_BUDGET), 1)
    ]
    if command:
        sections.append(Section("made", "Command", [Code(command)]))
    names = ", ".join(category.path[-1] for category in landing.categories)
    facts = [inline("from <b>{}</b>", landing.catalogue.name), f"Ranked by {landing.system}."]
    return write_page(path, Page("landing page", title or names, sections, facts))


def landing_blocks(landing: LandingPage, budget: int) -> list[tuple[LandingCategory, list[Block]]]:
    """Each category with its blocks: where it stands, its products, and related products."""
    shown = [product for category in landing.categories for product in (*category.products, *category.related)]
    products = Products(landing.catalogue, shown)
    thumbnails = product_thumbnails(landing.catalogue, shown, budget=budget)
    if not any(thumbnail.uri for thumbnail in thumbnails.values()):
        thumbnails = {}  # a shop without pictures: a list of titles

    def strip(ids: Sequence[str], title: str, is_large: bool, with_category: bool) -> Strip:
        return Strip(
            [_tile(landing, products, thumbnails, product, with_category) for product in ids],
            title=title,
            is_large=is_large,
        )

    listed: list[tuple[LandingCategory, list[Block]]] = []
    for category in landing.categories:
        blocks: list[Block] = [Paragraph(_where(category), "lead")]
        if category.products:
            blocks.append(strip(category.products, "", True, False))
        else:
            blocks.append(Paragraph("No product belongs to this category.", "missing"))
        if category.related:
            blocks.append(strip(category.related, f"{category.path[-1]}: from other categories", False, True))
        listed.append((category, blocks))
    return listed


def table(landing: LandingPage) -> Table:
    """Every product that is shown: the category, whether it belongs to it, title and price."""
    shown = [product for category in landing.categories for product in (*category.products, *category.related)]
    products = Products(landing.catalogue, shown)
    rows = [
        (category, kind, rank, products.product(product))
        for category in landing.categories
        for kind, ids in (("product", category.products), ("from other categories", category.related))
        for rank, product in enumerate(ids, 1)
    ]
    columns = [
        Column("landing page", of=lambda row: " › ".join(row[0].path)),
        *(Column("shown as", of=at(1)), Column("rank", 0, of=at(2)), Column("title", of=at(3, "title"))),
        Column("price", of=lambda row: landing.prices.get(row[3].id)),
        *(Column("category", of=lambda row: " › ".join(row[3].path)), Column("product", of=at(3, "id"))),
    ]
    return Table.over(rows, columns, caption="Landing page", notes=[f"Ranked by {landing.system}."])


def _tile(
    landing: LandingPage, products: Products, thumbnails: dict[str, Thumbnail], product: str, with_category: bool
) -> Tile:
    shown = products.product(product)
    lines = [shown.path[-1]] if with_category else []
    return Tile(
        shown.title, thumbnails.get(product), shown.title, landing.prices.get(product, ""), hint=product, lines=lines
    )


def _where(category: LandingCategory) -> str:
    """Where the category stands, how many products it has, and what lies below it."""
    products = f"{category.total:,} {'product' if category.total == 1 else 'products'}"
    below = ", ".join(f"{name} ({count:,})" for name, count in category.below)
    return f"{' › '.join(category.path)}: {products}{f'. {below}' if below else ''}."


# A landing page in a notebook: the pictures of its products.


def blocks(landing: LandingPage) -> list[Block]:
    """The categories with their products."""
    return [block for _, of_category in landing_blocks(landing, BUDGET) for block in of_category]
