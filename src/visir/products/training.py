"""Training a category model: from a recipe and the vectors of a catalogue to a folder."""

from __future__ import annotations

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
from visir.training.inputs.base import TrainingExamples
from visir.training.inputs.vectors import VectorSource
from visir.training.objectives.objective import Objective

COMMAND = "products train CATALOGUE --recipe"
"""What runs a recipe again, before the name of its file."""
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
    """Train a category model and write its folder."""
    # An epoch sees every product once, with the category that `drawn_categories(…, recipe.setting, recipe.seed)` gives
    # it. In the curve and in the validation figures the tasks are "category to product" and "product to category",
    # among the categories of either part's pairs. The folder holds `heads.safetensors`, `visir.json` (shapes, encoders'
    # cards, recipe, figures), `recipe.toml`, `curve.json` and `steps.jsonl`.
    # The loop is that of every other training (`visir.training.fit`): a category is an anchor, and the products that
    # were paired with it are its positives.
    checkpoint = Checkpoint.begin(recipe, COMMAND, out, LAYOUT, resume=resume)
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
        report=report,
    )
    return load_categories_model(out)


def build(recipe: CategoriesRecipe, vectors: CatalogueVectors) -> tuple[Tower, ProductTower, Objective]:
    """New towers and the objective, drawn from the seed of the recipe."""
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
    """The training and the validation pairs, as the loop takes them."""
    # In training every category of the tree can be an anchor. In validation the categories of the pairs of both parts
    # are candidates: where only roots are queries, a product need not distinguish its root from the categories below
    # it.
    for name, part in (("train", train), ("validation", validation)):
        if not len(part):
            raise ConfigurationError(f"{part.catalogue.name}: the {name} part has no products.", hint="another split")
    mean = recipe.product.attributes == "mean"
    drawn = [drawn_categories(part.catalogue, recipe.setting, recipe.seed) for part in (train, validation)]
    candidates = np.unique(np.concatenate(drawn))
    origin = {"setting": recipe.setting, "encoders": {name: card.fingerprint for name, card in train.cards.items()}}
    train_examples, validation_examples = (
        TrainingExamples(
            anchors=VectorSource([part.categories[rows] if rows is not None else part.categories]),
            positives=ProductSource(part, recipe.product.modalities, mean=mean),
            anchor_rows=anchor_rows,
            ids=part.catalogue.products["id"].to_pylist(),
            origin={"catalogue": part.catalogue.fingerprint, **origin},
            classes=CategoryTree.of(part.catalogue).rows(part.catalogue.products["category_id"]),
            unit=UNIT,
        )
        for part, anchor_rows, rows in (
            (train, drawn[0], None),
            (validation, np.searchsorted(candidates, drawn[1]), candidates),
        )
    )
    return train_examples, validation_examples


def _cards(recipe: CategoriesRecipe, vectors: CatalogueVectors) -> dict[str, Any]:
    """The cards of what the model reads."""
    plurals = {"image": "images", "title": "titles", "attributes": "attributes"}
    parts = {"categories", *(plurals[modality] for modality in recipe.product.modalities)}
    return {name: card for name, card in vectors.cards.items() if name in parts}
