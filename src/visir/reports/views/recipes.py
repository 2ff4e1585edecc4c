"""The list of recipes as a table."""

from __future__ import annotations

from visir.reports.page import Block
from visir.reports.table import Column, Table
from visir.training.shipped import GROUPS, RecipeList


def table(recipes: RecipeList) -> Table:
    """One row for each recipe, under the heading of its group."""
    rows = [[GROUPS[recipe.group], recipe.name, recipe.title] for recipe in recipes]
    return Table.of([Column("when to use it"), Column("recipe"), Column("what it is")], rows)


def blocks(recipes: RecipeList) -> list[Block]:
    """The table."""
    return [table(recipes)]
