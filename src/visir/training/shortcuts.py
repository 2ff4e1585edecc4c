"""Shortcuts as a recipe writes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from visir.records import Shortcuts
from visir.records.shortcuts import MOST_BITS, Carrier, DigitSource, Kind, Per, Placement
from visir.training.settings import Settings


class ShortcutSettings(Settings):
    """Synthetic shortcuts on the training and the validation split; see `visir.records.Shortcuts`.

    Validation looks at the split with its shortcuts, as training does; without, it is a matter of `visir evaluate`.

    Attributes:
        kind: "unique" (setup II of thesis section 4.3) or "bits" (setup IV: `bits` of them).
        on: "both", "images" or "captions" (setup III).
        per: "image", or "caption": every caption has its own.
        digits: "mnist", "sklearn" or "auto", the first that is there.
        placement: "even" (the thesis), "packed" (its code).
        seed: Of numbers and handwriting; the recipe's own seed does not enter, so that seeds share their shortcuts.
        shuffles: 0 re-shuffles the numbers every epoch; k ≥ 1 makes k assignments, and epoch e takes the (e mod k)-th.
            A frozen side needs that, and encodes the split once for each.
    """

    kind: Kind = "unique"
    bits: Annotated[int, Field(ge=0, le=MOST_BITS)] = 0
    on: Carrier = "both"
    per: Per = "image"
    digits: DigitSource = "auto"
    placement: Placement = "even"
    seed: Annotated[int, Field(ge=0)] = 0
    shuffles: Annotated[int, Field(ge=0)] = 0

    def record(self) -> Shortcuts:
        """What is injected."""
        return Shortcuts(**self.model_dump(exclude={"shuffles"}))
