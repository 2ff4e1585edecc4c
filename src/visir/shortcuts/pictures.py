"""The shortcuts of a collection's pictures, stamped on them row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from visir.records import Items
from visir.shortcuts.stamp import Stamp
from visir.shortcuts.view import picture_numbers, picture_places


def stamped(items: Items, prepare: Callable[[Any], Any]) -> Callable[[int, Any], Any]:
    """A function (row of `items`, prepared picture) → what the model sees at evaluation."""
    # Without shortcuts on pictures it gives back what it gets. `prepare` is the model's own preprocessing. Which
    # handwriting a picture gets depends on its row's tuple, so it is the same in every split and order.
    numbers_by_row = picture_numbers(items)
    if numbers_by_row is None:
        return lambda row, prepared: prepared
    injected = items.injected
    assert injected is not None
    stamp = Stamp(injected.shortcuts, prepare)
    numbers, places = numbers_by_row.tolist(), picture_places(items).tolist()
    return lambda row, prepared: prepared if numbers[row] < 0 else stamp(prepared, numbers[row], places[row])
