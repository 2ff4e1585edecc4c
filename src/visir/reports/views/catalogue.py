"""A catalogue: counts, and some products with their titles."""

from __future__ import annotations

from visir.records import Catalogue
from visir.reports.page import Block
from visir.reports.views.items import blocks as items_blocks
from visir.reports.views.parts import facts


def blocks(catalogue: Catalogue) -> list[Block]:
    """The counts, and products from all over the catalogue."""
    heading = facts(
        catalogue.name,
        (catalogue.products.num_rows, "products"),
        (catalogue.categories.num_rows, "categories"),
        (catalogue.attributes.num_rows, "attributes"),
    )
    return [heading, *items_blocks(catalogue.items)[1:]]
