"""The recipe of a category model: one small TOML file with everything a training depends on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from visir.products.model.objective import CategoryLoss
from visir.products.relevance import Setting
from visir.training.recipe import Averaging, Optimiser, Schedule, Selection
from visir.training.settings import Settings, read_settings
from visir.training.shipped import base_of, find_recipe, shipped_recipes
from visir.training.sides import Count, HeadShape, Positive

Part = Literal["image", "title", "attributes"]
VERB = "products train"
"""The command that the files of these recipes begin with."""
RECIPES = Path(__file__).parents[1] / "recipes"


def _in_order(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if len(set(parts)) != len(parts):
        raise ValueError("each modality once")
    return tuple(part for part in get_args(Part) if part in parts)


class CategorySide(Settings):
    """The head over category names, g_c (eq. 7.2); two hidden layers, as in the thesis, which gives no widths."""

    head: HeadShape = HeadShape(hidden=(512, 512))
    rate: Positive | None = None


class ProductSide(Settings):
    """The modalities of a product, joined, and the head over them, g_p (eqs 7.3–7.6). See `ProductTower`."""

    # Any of "image", "title", "attributes": CLIP-I has the first, CLIP-IA image and attributes, CLIP-ITA all.
    modalities: Annotated[tuple[Part, ...], Field(min_length=1), AfterValidator(_in_order)] = get_args(Part)
    # Their "mean" (eq. 7.5), or "attention" over them (the future work of the thesis).
    attributes: Literal["mean", "attention"] = "mean"
    # "unit" divides the vector of each modality by its length before they are joined; "none" joins the vectors of the
    # encoders as they are, which the thesis may have done.
    scaling: Literal["unit", "none"] = "unit"
    # The vector of a modality that a product lacks: "zero", or a "learnt" one per modality.
    absent: Literal["zero", "learnt"] = "zero"
    head: HeadShape = HeadShape(hidden=(512, 512))  # its hidden layers
    rate: Positive | None = None  # the peak learning rate of this side; None takes that of the optimiser


class Encoders(Settings):
    """The frozen encoders, as `visir.load` takes them."""

    image: str = "openai/clip-vit-base-patch32"  # of pictures; not loaded when the product side has none
    text: str = "st:all-mpnet-base-v2"  # of the names of categories, titles and attributes


class CategoriesRecipe(Settings):
    """A category model and how it is trained; a `visir.training.regime.Regime`."""

    # Device, precision, optimiser, schedule, averaging and selection are as in `visir.training.recipe.Recipe`.

    name: Annotated[str, Field(pattern=r"^[\w.\-]+$")]
    # The category that a product makes a pair with: one of its path at random ("all"), its most "general" or its most
    # "specific" one (thesis section 7.4.2).
    setting: Setting = "all"
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    dimension: Count = 512  # d of the common space; the thesis gives none
    encoders: Encoders = Encoders()
    category: CategorySide = CategorySide()
    product: ProductSide = ProductSide()
    objective: CategoryLoss = CategoryLoss()
    optimiser: Optimiser = Optimiser(epochs=30, batch=128)
    schedule: Schedule = Schedule()
    averaging: Averaging = Averaging()
    selection: Selection = Selection(keep="last")

    @property
    def rates(self) -> dict[str, float]:
        """The peak learning rates of the sides that have one of their own."""
        sides = (("category", self.category.rate), ("product", self.product.rate))
        return {side: rate for side, rate in sides if rate}


categories_base_of = partial(base_of, verb=VERB, folder=RECIPES)
find_categories_recipe = partial(find_recipe, verb=VERB, folder=RECIPES)
"""`find_recipe` of these recipes."""
shipped_categories_recipes = partial(shipped_recipes, VERB, RECIPES)
"""`shipped_recipes` of these recipes."""


def read_categories_recipe(path: str | Path, changes: Sequence[str] = ()) -> CategoriesRecipe:
    """Read a recipe; `extends` as in `visir train`."""
    return read_settings(CategoriesRecipe, path, changes, find_base=categories_base_of, own=("name",))
