"""Training: heads over two frozen encoders, from a recipe to a checkpoint that `visir.load` takes.

Names are imported when first used: recipes can be read and listed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.training.heads import train_heads
    from visir.training.recipe import Recipe, read_recipe

__getattr__ = lazy(
    __name__,
    {
        "Recipe": "visir.training.recipe",
        "read_recipe": "visir.training.recipe",
        "train_heads": "visir.training.heads",
    },
)

__all__ = ["Recipe", "read_recipe", "train_heads"]
