"""What a call of `visir.train` means: a recipe with everything in it, its collection, and the two splits."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections import open_collection, open_source
from visir.encoders.base import Encoder
from visir.errors import CollectionError, ConfigurationError, VisirError, nearest, raise_faults
from visir.records import Collection, TaskFile, TaskSet
from visir.records.splitting import EXAMPLE
from visir.shortcuts.view import inject
from visir.training.recipe import Data, EpochChoice, Recipe, expand, read_recipe
from visir.training.settings import Change, Settings
from visir.training.shipped import find_recipe

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


# Keywords of `visir.train` and `visir.sparsify`: short names for the keys of a recipe that people change most.

RecipeChanges = Mapping[str, Any] | Sequence[str]
"""Keys of a recipe with their values: {"optimiser.rate": 1e-4}, or ["optimiser.rate=1e-4"] as after `--set`."""


KEYWORDS: dict[str, tuple[str, ...]] = {
    "model": ("image.encoder", "text.encoder"),
    "image_model": ("image.encoder",),
    "text_model": ("text.encoder",),
    "images": ("data.images",),
    "split_by": ("data.split_by",),
    "epochs": ("optimiser.epochs",),
    "batch": ("optimiser.batch",),
    "rate": ("optimiser.rate",),
    "seed": ("seed",),
    "device": ("device",),
}
"""Keyword → the keys of a recipe that it sets."""


SPARSE_KEYWORDS: dict[str, tuple[str, ...]] = {
    **{name: keys for name, keys in KEYWORDS.items() if not name.endswith("model")},
    "model": ("encoder",),
    "variant": ("expansion.variant",),
    "eta": ("loss.eta",),
}
"""The same for the recipe of a sparse head."""


_ELSEWHERE = {
    "lr": "rate",
    "learning_rate": "rate",
    "batch_size": "batch",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "max_epochs": "epochs",
    "num_train_epochs": "epochs",
    "random_state": "seed",
    "output_dir": "out",
    "output": "out",
    "dataset": "data",
    "train_dataset": "data",
}
"""What other libraries call them."""


def changes_of(
    keywords: Mapping[str, Any],
    sections: Mapping[str, Any],
    more: RecipeChanges | None,
    *,
    known: Mapping[str, tuple[str, ...]] = KEYWORDS,
    top: Sequence[str],
    verb: str = "train",
) -> list[Change]:
    """What a call sets over its recipe; later ones win: keywords, then sections, then `set`."""
    faults = [_unknown(name, known, top) for name in sections if name not in top]
    call = f"visir.{verb}(…, epochs=5, set={{'optimiser.rate': 1e-4}})"
    raise_faults(ConfigurationError, f"visir.{verb}", faults, hint=call)
    changes = [
        Change(tuple(key.split(".")), _plain(value), f"{name}={_short(value)}")
        for name, value in keywords.items()
        if value is not None
        for key in known[name]
    ]
    changes += [change for name, value in sections.items() for change in _section((name,), value)]
    return [*changes, *_set(more)]


def data_changes(data: str | os.PathLike[str] | Collection | TaskFile | TaskSet, name: str = "") -> list[Change]:
    """What own data sets in a recipe: the whole section, because the rest of it was about other data."""
    if isinstance(data, Collection | TaskFile | TaskSet):
        collection = data.name
        obtain = f"its pairs were given in Python: visir.train({name or 'recipe'!r}, data=…)"
    else:
        collection, obtain = os.fspath(data), ""
    place = f"data={_short(data)}"
    values = {
        "collection": collection,
        "images": None,
        "train": "train",
        "validation": "val",
        "split_by": None,
        "obtain": obtain,
    }
    return [Change(("data", key), value, place) for key, value in values.items()]


def _section(where: tuple[str, ...], value: Any) -> Iterator[Change]:
    if isinstance(value, Mapping):
        # The kind of a section (`name`, `tower`) comes first, so that the rest of it is of that kind.
        for key in sorted(value, key=lambda key: key not in ("tower", "name")):
            yield from _section((*where, str(key)), value[key])
    else:
        yield Change(where, _plain(value), f"{'.'.join(where)}={_short(value)}")


def _set(more: RecipeChanges | None) -> list[Change]:
    if more is None:
        return []
    if isinstance(more, str):
        raise ConfigurationError(f"set={more!r}: a text.", hint="set={'optimiser.rate': 1e-4}")
    if isinstance(more, Mapping):
        return [
            Change(tuple(str(key).split(".")), _plain(value), f"{key}={_short(value)}") for key, value in more.items()
        ]
    return [Change.parse(text) for text in more]


def _unknown(name: str, known: Mapping[str, tuple[str, ...]], top: Sequence[str]) -> str:
    if name in _ELSEWHERE:
        return f"unknown keyword {name!r}: it is called {_ELSEWHERE[name]!r} here"
    return f"unknown keyword {name!r}: {nearest(name, {*known, *top, 'data', 'out', 'set', 'resume', 'report'})}"


def _plain(value: Any) -> Any:
    """A path as text; lists of them too."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def _short(value: object) -> str:
    text = repr(str(value)) if isinstance(value, Path) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


R = TypeVar("R", bound=Settings)


@dataclass(frozen=True)
class RecipeKind(Generic[R]):
    """A kind of recipe, and what a call may set over it."""

    verb: str  # of the command and the function that run it
    kind: type[R]  # its class
    read: Callable[[Any, Sequence[Change]], R]  # reads one from a path, a dictionary or a recipe, with changes
    keywords: Mapping[str, tuple[str, ...]]  # keyword → the keys that it sets

    def resolve(
        self,
        recipe: object,
        data: Any = None,
        keywords: Mapping[str, Any] | None = None,
        sections: Mapping[str, Any] | None = None,
        more: RecipeChanges | None = None,
    ) -> tuple[R, Any]:
        """The recipe with everything that a call sets over it, and its collection, all splits of it."""
        # A recipe with a combiner has a source of tasks in place of a collection.
        given = {
            name: named_model(name, value) if name.endswith("model") else value
            for name, value in (keywords or {}).items()
        }
        opened = as_collection(data, given.get("images"))
        if opened is not None:
            given.pop("images", None)
        top = tuple(self.kind.model_fields)
        changes = changes_of(given, sections or {}, more, known=self.keywords, top=top, verb=self.verb)
        if data is not None:
            changes = [*data_changes(data if opened is None else opened, _label(recipe)), *changes]
        read: Any = self._read(recipe, changes)
        if getattr(read, "combiner", None) is not None:
            return read, opened or self._open(read, data, tasks=True)
        if isinstance(opened, TaskFile | TaskSet):
            raise CollectionError(
                f"{opened.name}: a task; this recipe learns from images and captions.", code="task-not-pairs"
            )
        collection = opened or self._open(read, data)
        return read.model_copy(update={"data": settled(read.data, collection)}), collection

    def _read(self, recipe: object, changes: Sequence[Change]) -> R:
        try:
            return self.read(self._source(recipe), changes)
        except ConfigurationError as fault:
            if "model=" not in fault.message or ".encoder': did you" not in fault.message:
                raise
            hint = "this recipe begins a side from nothing, which takes no model; clip-finetune and heads take one"
            raise ConfigurationError(fault.message, hint=hint) from fault

    def _open(self, recipe: Any, data: object, *, tasks: bool = False) -> Any:
        try:
            return open_whole(recipe.data, recipe.name, self.verb, tasks=tasks)
        except VisirError as fault:
            if data is None or ":" in str(data) or Path(str(data)).exists():
                raise
            hint = f'{fault.hint}. The folder to write is named: out="{data}"'
            raise type(fault)(fault.message, hint=hint, code=fault.code) from fault

    def _source(self, recipe: object) -> object:
        if isinstance(recipe, (Mapping, self.kind)):
            return recipe
        if isinstance(recipe, (str, os.PathLike)):
            return find_recipe(os.fspath(recipe), self.verb)
        raise ConfigurationError(
            f"visir.{self.verb}: the recipe is a {type(recipe).__name__}.",
            hint='a name (visir.recipes() lists them), a TOML file, a dictionary; visir.train("scenes-heads")',
            code="recipe-of-another-type",
        )


TOWERS = RecipeKind("train", Recipe, read_recipe, KEYWORDS)
"""Recipes of `visir.train`."""


def as_collection(data: Any, images: Any = None) -> Collection | TaskFile | TaskSet | None:
    """Data that is an object, opened; None for a path or a spec, which the recipe itself names, and for None."""
    if data is None or isinstance(data, (str, os.PathLike)):
        return None
    if isinstance(data, TaskFile | TaskSet):
        return data
    return data if isinstance(data, Collection) and images is None else open_collection(data, images=images)


def named_model(keyword: str, model: Any) -> Any:
    """A model by the name under which a recipe finds it again; names, paths and lists of them stay as they are."""
    if not isinstance(model, Encoder):
        return model
    from visir.encoders.families import family_of

    faults = []
    try:
        family_of(model.card.name)
    except Exception:
        faults = [f"{keyword}: the encoder {model.card.name!r} was made in Python; a recipe names models"]
    hint = f'{keyword}="openai/clip-vit-base-patch32", a folder, or another name that visir.load takes'
    raise_faults(ConfigurationError, "visir.train", faults, hint=hint)
    return model.card.name


def _label(recipe: object) -> str:
    if isinstance(recipe, Mapping):
        return str(recipe.get("name", ""))
    return str(getattr(recipe, "name", recipe))
