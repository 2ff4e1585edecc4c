"""The data of a recipe: a collection and its two splits."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections import open_collection, open_source
from visir.errors import CollectionError, ConfigurationError, VisirError
from visir.records import Collection
from visir.records.splitting import EXAMPLE
from visir.shortcuts.view import inject
from visir.training.recipe import Data, EpochChoice, Recipe, expand

# A collection without splits is divided: some pictures are trained on, the others say how well it goes.

SHARE = 0.1
"""The share of the pictures that validate, where nothing else is said."""
_LEAST = 2
"""Pictures with captions that a part needs: with fewer there is nothing to tell a pair from."""


def default_rule(collection: Collection) -> str:
    """How a collection is divided that has no split to validate on: 9 to 1, and at least two pictures in each part."""
    count = pc.count_distinct(collection.captions["image_id"]).as_py()
    if count < 2 * _LEAST:
        raise CollectionError(
            f"{collection.name}: {count} pictures with captions; to train and to validate takes at least {2 * _LEAST}.",
            hint="train on more pairs",
            code="pictures-captions",
        )
    share = max(SHARE, math.ceil(100 * _LEAST / count) / 100)
    return f"random(train={1 - share:.2g},val={share:.2g},seed=0)"


def divided(collection: Collection, rule: str) -> Collection:
    """A collection with the splits of a rule, of which one must be "train" and one "val"."""
    parts = open_collection(collection, split_by=rule)
    missing = [name for name in ("train", "val") if name not in parts.splits]
    if missing:
        raise ConfigurationError(
            f'split_by = "{rule}": it makes no split "{missing[0]}".',
            hint='"random(train=0.9, val=0.1, seed=0)", or with a part for tests "random(0.8, 0.1, 0.1, seed=0)"',
            code="makes-no-split",
        )
    return parts


@dataclass(frozen=True, eq=False)
class Splits:
    """What is learnt from, and by what the epoch is chosen."""

    train: Collection
    validation: Collection


def open_whole(data: Data, recipe: str = "", verb: str = "train", *, tasks: bool = False) -> Any:
    """The collection that a recipe names, all splits of it."""
    if not data.collection:
        raise ConfigurationError(
            f"{recipe or 'recipe'}: which pictures and captions? It is a recipe for data of your own.",
            hint=f"visir {verb} {recipe} --data captions.csv --images photos/\n"
            f'  → in Python: visir.{verb}({recipe!r}, data="captions.csv", images="photos/")',
        )
    images = data.images if data.images is None else _expanded(data.images)
    try:
        open_source_of = open_source if tasks else open_collection
        return open_source_of(expand(data.collection), images=images)
    except VisirError as fault:
        if not data.obtain:
            raise
        raise CollectionError(fault.message, hint=expand(data.obtain)) from fault


def _expanded(images: str | tuple[str, ...]) -> str | list[str]:
    return expand(images) if isinstance(images, str) else [expand(place) for place in images]


def settled(data: Data, collection: Collection) -> Data:
    """The data of a recipe with splits that the collection has; where it has none to choose epochs by, some are
    made."""
    # A collection that calls its validation split by another name is taken as it is. One without any is divided at
    # random, and a warning says so: 9 of 10 pictures are trained on.
    usual = Data()
    if data.split_by is not None or (data.train, data.validation) != (usual.train, usual.validation):
        return data
    splits = set(filter(None, collection.splits))
    if usual.train in splits:
        for name in (usual.validation, "validation", "valid", "dev"):
            if name in splits:
                return data.model_copy(update={"validation": name})
    elif splits:
        return data  # of other splits the person chooses: the error lists them
    part = collection.split(usual.train) if splits else collection
    rule = default_rule(part)
    parts = divided(part, rule)
    train, validation = (parts.split(name).images.num_rows for name in ("train", "val"))
    warnings.warn(
        f"{collection.name} has no split {'to validate on' if splits else 'at all'}: {train:,} pictures are trained on "
        f"and {validation:,} validate, drawn at random with seed 0{'; so few say little' if validation < 50 else ''}. "
        f'Another way: --split-by "{EXAMPLE}" (split_by=… in Python)',
        stacklevel=4,
    )
    return data.model_copy(update={"split_by": rule})


def open_splits(recipe: Recipe, collection: Collection | None = None) -> Splits:
    """The two splits that a recipe names, with its shortcuts."""
    collection = collection or open_whole(recipe.data, recipe.name)
    if collection.injected is not None:
        raise ConfigurationError(
            f"{collection.name} carries shortcuts already ({collection.injected}); training re-shuffles its own.",
            hint="give the collection without (visir.shortcuts.plain), and a section [shortcuts] in the recipe",
            code="carries-shortcuts-already-training",
        )
    if collection.corrupted is not None:
        raise ConfigurationError(
            f"{collection.name} is a view with corrupted pictures ({collection.corrupted}); training has its own "
            "augmentation.",
            hint="give the collection without, or write the pictures: visir.robustness.corruptions.write_pictures",
        )
    if recipe.shortcuts is not None:  # on the whole collection: no number occurs in two splits
        collection = inject(collection, recipe.shortcuts.record())
    return split_for_training(collection, recipe.data, recipe.selection)


def split_for_training(collection: Collection, data: Data, selection: EpochChoice) -> Splits:
    """The two splits of a collection that a recipe names."""
    if data.split_by is not None:
        part = _split(collection, data.train, "data.train") if data.train in collection.splits else collection
        parts = divided(part, data.split_by)
        return Splits(parts.split("train"), parts.split("val"))
    train = _split(collection, data.train, "data.train")
    validation = _split(collection, data.validation, "data.validation")
    shared = pc.sum(pc.is_in(validation.images["id"], pc.unique(train.images["id"]))).as_py()
    if shared and selection.keep != "last":
        warnings.warn(
            f"{shared:,} of {validation.images.num_rows:,} validation images are trained on too, so the validation "
            f'{selection.figure} says nothing of new images: let it choose nothing (selection.keep = "last")',
            stacklevel=3,
        )
    return Splits(train, validation)


def _split(collection: Collection, name: str, key: str) -> Collection:
    try:
        split = collection.split(name)
    except VisirError as fault:
        raise CollectionError(f"{key}: {fault.message}", hint=fault.hint, code=fault.code) from fault
    captioned = pc.count_distinct(split.captions["image_id"]).as_py()
    if captioned < 2:
        content = "no captions" if captioned == 0 else "captions of one image only"
        raise CollectionError(
            f"{key}: {split.name}: {content} in {' and '.join(map(repr, split.splits))}; training tells pairs apart.",
            hint="choose other splits (data.train, data.validation), or divide anew: --split-by (split_by=…)",
        )
    return split


def given_file(recipe: Recipe, name: str, key: str) -> Path:
    """A file that a recipe names under `key`; missing, it is an error that says what to download."""
    path = Path(expand(name))
    if not path.is_file():
        raise CollectionError(
            f"{key}: {path}: no such file.", hint=expand(recipe.data.obtain) or "check the path", code="no-such-file"
        )
    return path


def image_rows_of(split: Collection) -> NDArray[np.int64]:
    """(m,) int64: the row in `split.images` of each caption's image."""
    rows = pc.index_in(split.captions["image_id"], split.images["id"].combine_chunks())
    return np.asarray(rows.to_numpy(), np.int64)
