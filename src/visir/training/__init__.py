"""Training: heads over two frozen encoders, from a recipe to a checkpoint that `visir.load` takes.

Names are imported when first used: recipes can be read and listed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visir.training.heads import train_heads
    from visir.training.recipe import Recipe, read_recipe

_WHERE = {
    "Recipe": "visir.training.recipe",
    "read_recipe": "visir.training.recipe",
    "train_heads": "visir.training.heads",
}

__all__ = ["Recipe", "read_recipe", "train_heads"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module 'visir.training' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
