"""Synthetic shortcuts: a number that an image and its captions share and that says nothing of what they show.

How much of a training's success rests on such a number is how far its objective cheats (thesis chapter 4).

The road through the files: `digits` (the handwriting; `idx` reads MNIST's files) → `numbers` (which tuple carries
which) → `view` (a collection with shortcuts) → `stamp` (six tiles on a model's input; `model_input` finds out what
that is) → `pictures` (those of a collection) → `previewing` (some pairs to look at).

Names are imported when first used, so that `import visir.shortcuts` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.shortcuts.stamp import Digits, Stamp, load_digits, resolve
    from visir.shortcuts.view import inject, plain, preview, reassigned

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Digits": "visir.shortcuts.stamp",
        "load_digits": "visir.shortcuts.stamp",
        "preview": "visir.shortcuts.view",
        "audit": "visir.studies.shortcut_audit",  # named, not imported: that room is further down the road
        "resolve": "visir.shortcuts.stamp",
        "Stamp": "visir.shortcuts.stamp",
        "reassigned": "visir.shortcuts.view",
        "inject": "visir.shortcuts.view",
        "plain": "visir.shortcuts.view",
    },
)

__all__ = ["Digits", "Stamp", "inject", "load_digits", "plain", "preview", "reassigned", "resolve"]
