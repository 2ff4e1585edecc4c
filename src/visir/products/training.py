"""Training a category model: from a recipe and the vectors of a catalogue to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.errors import ConfigurationError, require
from visir.products.encoding import CatalogueVectors
from visir.products.model import (
    LAYOUT,
    CategoriesModel,
    CategoriesRecipe,
    CategoryInfoNCE,
    ProductSource,
    ProductSpec,
    ProductTower,
    find_categories_recipe,
    load_categories_model,
    read_categories_recipe,
    widths_of,
    write_files,
)
from visir.products.opening import open_catalogue
from visir.products.task import Split, drawn_categories
from visir.products.task import folds as cut
from visir.records import Catalogue
from visir.records.category_tree import CategoryTree
from visir.training.checkpoint import Checkpoint
from visir.training.inputs import TrainingExamples, VectorSource
from visir.training.learner import DualEncoder
from visir.training.loop import FitResult, Report
from visir.training.objective import Objective
from visir.training.recipe import expand

# Training a category model on a catalogue, in one call: encoded, cut into folds, trained on all but one.


def categories_recipe(
    recipe: str | Path,
    *,
    image: str | None = None,
    text: str | None = None,
    epochs: int | None = None,
    changes: Mapping[str, Any] | None = None,
    lines: Sequence[str] = (),
) -> CategoriesRecipe:
    """A recipe of category models by name or file, with changes."""
    keys = {"encoders.image": image, "encoders.text": text, "optimiser.epochs": epochs, **(changes or {})}
    of_keys = [f"{key}={json.dumps(value)}" for key, value in keys.items() if value is not None]
    return read_categories_recipe(find_categories_recipe(str(recipe)), [*of_keys, *lines])


def held_out(catalogue: Catalogue, folds: int, fold: int, seed: int) -> Split:
    """The split whose test part is one fold."""
    if not 1 <= fold <= folds:
        raise ConfigurationError(f"fold {fold}: there are {folds}.", hint=f"1 to {folds}")
    return cut(catalogue, folds, seed)[fold - 1]


def default_folder(recipe: CategoriesRecipe, fold: int) -> Path:
    """Where a model goes when nobody says: runs/NAME-SETTING-foldN-seedSEED."""
    return Path("runs") / f"{recipe.name}-{recipe.setting}-fold{fold}-seed{recipe.seed}"


def train(
    catalogue: Catalogue | str | Path,
    recipe: CategoriesRecipe | str | Path = "clip-ita",
    *,
    image: str | None = None,
    text: str | None = None,
    out: str | Path | None = None,
    folds: int = 5,
    fold: int = 1,
    split_seed: int = 0,
    skip_broken: bool = False,
    resume: bool = False,
    epochs: int | None = None,
    changes: Mapping[str, Any] | None = None,
    report: Report | None = None,
) -> Path:
    """Train a model that finds products by the name of a category (CLIP-ITA, thesis chapter 7).

    The encoders stay as they are; small heads over their vectors are trained. The products of one fold are left out,
    and a tenth of the others choose the epoch, so that `visir.products.evaluate` can test the model with products that
    it has never seen.

    Args:
        catalogue: What to learn from: a catalogue, or anything that `open_catalogue` takes.
        recipe: The name of a shipped recipe, a TOML file, or a recipe.
        image: The encoder of pictures ("mobilenet_v2", "npz:FILE"), instead of the recipe's.
        text: The encoder of names, titles and attributes ("st:all-MiniLM-L6-v2"), instead of the recipe's.
        out: The folder to make; by default runs/NAME-SETTING-foldN-seedSEED.
        folds: Into how many folds the products are cut.
        fold: Which fold is held out, from 1.
        split_seed: Another seed cuts other folds.
        skip_broken: Pictures that cannot be read count as absent, instead of stopping.
        resume: Continue from the state that an interrupted training left in `out`.
        epochs: How many epochs, instead of the recipe's.
        changes: Keys of the recipe to change: {"optimiser.epochs": 5}.
        report: Called after each epoch.

    Returns:
        The folder, which `visir.products.search` and `visir.products.evaluate` take as a system.

    Raises:
        ConfigurationError: The recipe, a key or the fold is unknown.
        VisirError: `out` is not empty.

    Example:
        >>> from visir.products import evaluate, train
        >>> folder = train("generated:60", image="pixels", text="bow", out="model", folds=2,
        ...                epochs=1, changes={"optimiser.batch": 16})
        >>> evaluate("generated:60", [folder], folds=2, fold=1).systems
        ['clip-ita']
    """
    require("torch", "safetensors", extra="torch", purpose="training")
    from visir.products.encoding import encode_catalogue

    resolved = recipe
    if not isinstance(resolved, CategoriesRecipe):
        resolved = categories_recipe(resolved, image=image, text=text, epochs=epochs, changes=changes)
    products = open_catalogue(expand(catalogue) if isinstance(catalogue, str) else catalogue)
    split = held_out(products, folds, fold, split_seed)
    target = default_folder(resolved, fold) if out is None else Path(out)
    modalities = resolved.product.modalities
    vectors = encode_catalogue(
        products,
        image=expand(resolved.encoders.image) if "image" in modalities else None,
        text=expand(resolved.encoders.text),
        titles="title" in modalities,
        attributes="attributes" in modalities,
        skip_broken=skip_broken,
    )
    parts = vectors.keep_products(split.train), vectors.keep_products(split.validation)
    train_categories(resolved, *parts, target, resume=resume, report=report)
    return target


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
    # The loop is that of every other training (`visir.training.loop`): a category is an anchor, and the products that
    # were paired with it are its positives.
    checkpoint = Checkpoint.begin(recipe, COMMAND, out, LAYOUT, resume=resume)
    category, product, objective = build(recipe, train)
    train_examples, validation_examples = examples_of(recipe, train, validation)
    plurals = {"image": "images", "title": "titles", "attributes": "attributes"}
    read = {"categories", *(plurals[modality] for modality in recipe.product.modalities)}
    cards = {name: card for name, card in train.cards.items() if name in read}
    model = CategoriesModel(category, product, cards)

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
