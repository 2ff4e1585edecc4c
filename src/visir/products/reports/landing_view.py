"""A landing page in a notebook: the pictures of its products."""

from __future__ import annotations

from visir.products.landing import LandingPage
from visir.products.reports.landing import landing_blocks, landing_table
from visir.reports.page import Block
from visir.reports.shown import BUDGET
from visir.reports.table import Table


def blocks(landing: LandingPage) -> list[Block]:
    """The categories with their products."""
    return [block for _, of_category in landing_blocks(landing, BUDGET) for block in of_category]


def table(landing: LandingPage) -> Table:
    """Every product that is shown."""
    return landing_table(landing)
