"""Training a category model on a catalogue, in one call: encoded, cut into folds, trained on all but one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, require
from visir.products.model.recipe import CategoriesRecipe, find_categories_recipe, read_categories_recipe
from visir.products.opening import open_catalogue
from visir.products.split import Split
from visir.products.split import folds as cut
from visir.records import Catalogue
from visir.training.fit import Report
from visir.training.recipe import expand


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
    from visir.products.training import train_categories

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
