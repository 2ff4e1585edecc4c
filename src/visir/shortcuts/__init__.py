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
    from visir.shortcuts.stamp import Digits as Digits
    from visir.shortcuts.stamp import Stamp as Stamp
    from visir.shortcuts.stamp import load_digits as load_digits
    from visir.shortcuts.stamp import resolve as resolve
    from visir.shortcuts.view import inject as inject
    from visir.shortcuts.view import plain as plain
    from visir.shortcuts.view import preview as preview
    from visir.shortcuts.view import reassigned as reassigned

__getattr__, __dir__, __all__ = lazy(__name__)
