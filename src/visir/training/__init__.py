"""Training: dual encoders, from a recipe to a checkpoint that `visir.load` takes.

Names are imported when first used: recipes can be read and listed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.training.planning import TrainingPlan, plan
    from visir.training.recipe import Recipe, read_recipe
    from visir.training.run import train
    from visir.training.shipped import RecipeList, find_recipe, recipes
    from visir.training.trained import TrainedModel

__getattr__, __dir__ = lazy(
    __name__,
    {
        "TrainingPlan": "visir.training.planning",
        "Recipe": "visir.training.recipe",
        "RecipeList": "visir.training.shipped",
        "TrainedModel": "visir.training.trained",
        "find_recipe": "visir.training.shipped",
        "plan": "visir.training.planning",
        "recipes": "visir.training.shipped",
        "read_recipe": "visir.training.recipe",
        "train": "visir.training.run",
    },
)

__all__ = [
    "Recipe",
    "RecipeList",
    "TrainedModel",
    "TrainingPlan",
    "find_recipe",
    "plan",
    "read_recipe",
    "recipes",
    "train",
]
