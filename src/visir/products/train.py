"""Training a category model: from a recipe and the vectors of a catalogue to a folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from visir.encoders.towers.base import Tower
from visir.encoders.towers.head import Head, HeadSpec
from visir.errors import ConfigurationError
from visir.products.model.objective import CategoryInfoNCE
from visir.products.model.recipe import CategoriesRecipe
from visir.products.model.source import ProductSource, widths_of
from visir.products.model.tower import ProductSpec, ProductTower
from visir.products.model.trained import LAYOUT, CategoriesModel, load_categories_model, write_files
from visir.products.pairs import drawn_categories
from visir.products.tree import CategoryTree
from visir.products.vectors import CatalogueVectors
from visir.training.checkpoint import Checkpoint
from visir.training.dual_encoder import DualEncoder
from visir.training.fit import FitResult, Report
from visir.training.folder import RECIPE_FILE, check_free
from visir.training.inputs.base import TrainingExamples
from visir.training.inputs.vectors import VectorSource
from visir.training.objectives.objective import Objective
from visir.training.settings import to_toml

UNIT = "products"
TASKS = ("category to product", "product to category")
"""What validation calls its two directions."""


def train_categories(
    recipe: CategoriesRecipe,
    train: CatalogueVectors,
    validation: CatalogueVectors,
    out: str | Path,
    *,
    resume: bool = False,
    report: Report | None = None,
) -> CategoriesModel:
    """Train what `recipe` says on the products of `train` and write the folder `out`; returns the model in it.

    - `train`, `validation`: two parts of one catalogue (`CatalogueVectors.keep_products`), with the whole tree
    - `resume`: go on from the state that an interrupted training left in `out`; without one, begin. The result is the
      same, bit for bit, as without the interruption.
    - `report`: called after each epoch

    An epoch sees every product once, with the category that `drawn_categories(…, recipe.setting, recipe.seed)` gives
    it. In the curve and in the validation figures the tasks are "category to product" and "product to category", among
    the categories of either part's pairs. The folder holds `heads.safetensors`, `visir.json` (shapes, encoders' cards,
    recipe, figures), `recipe.toml`, `curve.json` and `steps.jsonl`.

    It is the loop of every other training (`visir.training.fit`): a category is an anchor, and the products that were
    paired with it are its positives. Raises `VisirError` when `out` holds something already,
    `TrainingError` when the loss is NaN or infinite.
    """
    checkpoint = Checkpoint(Path(out), LAYOUT, recipe_text(recipe), resume)
    check_free(Path(out), resume)
    began = time.perf_counter()
    category, product, objective = build(recipe, train)
    train_examples, validation_examples = examples_of(recipe, train, validation)
    model = CategoriesModel(category, product, _cards(recipe, train))

    def write(path: Path, result: FitResult[DualEncoder], facts: dict[str, Any]) -> Mapping[str, Any]:
        for part, examples in (("trained_on", train_examples), ("validated_on", validation_examples)):
            facts[part] = {**examples.origin, "products": len(examples)}
        return write_files(path, model, facts)

    checkpoint.train(
        recipe,
        DualEncoder({"category": category, "product": product}, objective, TASKS),
        train_examples,
        validation_examples,
        write,
        prepared=time.perf_counter() - began,
        report=report,
    )
    return load_categories_model(out)


def build(recipe: CategoriesRecipe, vectors: CatalogueVectors) -> tuple[Tower, ProductTower, Objective]:
    """Fresh towers and the objective, drawn from the recipe's seed."""
    side = recipe.product
    widths = widths_of(vectors, side.modalities)
    head = HeadSpec(sum(widths.values()), recipe.dimension, **side.head.model_dump())
    spec = ProductSpec(widths, head, side.attributes, side.scaling, side.absent)
    names = HeadSpec(vectors.categories.shape[1], recipe.dimension, **recipe.category.head.model_dump())
    with torch.random.fork_rng([]):
        torch.manual_seed(recipe.seed)
        category, product = Tower(None, Head(names)), ProductTower(spec)
    category.head.fit_scaling(vectors.categories)
    loss = CategoryInfoNCE(recipe.objective, CategoryTree.of(vectors.catalogue))
    return category, product, Objective(loss)


def examples_of(
    recipe: CategoriesRecipe, train: CatalogueVectors, validation: CatalogueVectors
) -> tuple[TrainingExamples, TrainingExamples]:
    """The pairs of both parts as the loop takes them.

    In training every category of the tree can be an owner; in validation those of either part's pairs are candidates,
    so that a product is not asked to tell its root from the categories below, when only roots are asked for.
    """
    for what, part in (("train", train), ("validation", validation)):
        if not len(part):
            raise ConfigurationError(f"{part.catalogue.name}: the {what} part has no products.", hint="another split")
    mean = recipe.product.attributes == "mean"
    drawn = [drawn_categories(part.catalogue, recipe.setting, recipe.seed) for part in (train, validation)]
    asked = np.unique(np.concatenate(drawn))
    origin = {"setting": recipe.setting, "encoders": {name: one.fingerprint for name, one in train.cards.items()}}
    train_examples, validation_examples = (
        TrainingExamples(
            anchors=VectorSource([part.categories[rows] if rows is not None else part.categories]),
            positives=ProductSource(part, recipe.product.modalities, mean=mean),
            anchor_rows=owners,
            ids=part.catalogue.products["id"].to_pylist(),
            origin={"catalogue": part.catalogue.fingerprint, **origin},
            classes=CategoryTree.of(part.catalogue).rows(part.catalogue.products["category_id"]),
            unit=UNIT,
        )
        for part, owners, rows in ((train, drawn[0], None), (validation, np.searchsorted(asked, drawn[1]), asked))
    )
    return train_examples, validation_examples


def recipe_text(recipe: CategoriesRecipe) -> str:
    """The resolved recipe as TOML, opening with the command that runs it."""
    return to_toml(recipe, f"visir categories train CATALOGUE --recipe {RECIPE_FILE}")


def _cards(recipe: CategoriesRecipe, vectors: CatalogueVectors) -> dict[str, Any]:
    """The cards of what the model reads."""
    words = {"image": "images", "title": "titles", "attributes": "attributes"}
    read = {"categories", *(words[one] for one in recipe.product.modalities)}
    return {name: card for name, card in vectors.cards.items() if name in read}
