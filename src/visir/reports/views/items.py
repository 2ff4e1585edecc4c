"""Items: some of their pictures or texts."""

from __future__ import annotations

from visir.records import Items
from visir.reports.page import Block, Strip
from visir.reports.shown import BUDGET, ShownItems
from visir.reports.views.parts import facts, some_rows

SHOWN = 12
"""How many items are shown."""


def blocks(items: Items) -> list[Block]:
    """The count, and items from all over the list."""
    part = items.take(some_rows(len(items), SHOWN))
    names = part.ids.to_pylist()
    shown = ShownItems([(part, names)], budget=BUDGET)
    tiles = [shown.tile(part, name) for name in names]
    heading = facts(items.name or "Items", (len(items), items.title), items.holding)
    return [heading, *([Strip(tiles, is_ranked=False, is_large=True)] if tiles else [])]
