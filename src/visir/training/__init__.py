"""Training: dual encoders, from a recipe to a checkpoint that `visir.load` takes.

Names are imported when first used: recipes can be read and listed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.training.planning import TrainingPlan as TrainingPlan
    from visir.training.planning import plan as plan
    from visir.training.recipe import Recipe as Recipe
    from visir.training.recipe import read_recipe as read_recipe
    from visir.training.run import train as train
    from visir.training.shipped import RecipeList as RecipeList
    from visir.training.shipped import find_recipe as find_recipe
    from visir.training.shipped import recipes as recipes
    from visir.training.trained import TrainedModel as TrainedModel

__getattr__, __dir__, __all__ = lazy(__name__)
