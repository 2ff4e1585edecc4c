"""What a call of `visir.train` means: a recipe with everything in it, and the collection that it names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from visir.collections import open_collection
from visir.encoders.base import Encoder
from visir.errors import CollectionError, ConfigurationError, VisirError, raise_faults
from visir.records import Collection, TaskFile, TaskSet
from visir.training.data import open_whole, settled
from visir.training.keywords import KEYWORDS, RecipeChanges, changes_of, data_changes
from visir.training.layers import Change
from visir.training.recipe import Data, Recipe, read_recipe
from visir.training.shipped import find_recipe


class DataRecipe(Protocol):
    """A recipe that names a collection."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def data(self) -> Data:
        """What is learnt from."""
        ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with some keys changed (pydantic's)."""
        ...


R = TypeVar("R", bound=DataRecipe)


@dataclass(frozen=True)
class RecipeKind(Generic[R]):
    """A kind of recipe, and what a call may set over it."""

    verb: str  # of the command and the function that run it
    kind: type[R]  # its class
    read: Callable[[Any, Sequence[Change]], R]  # reads one from a path, a dictionary or a recipe, with changes
    keywords: Mapping[str, tuple[str, ...]]  # keyword → the keys that it sets
    top: tuple[str, ...]  # the keys at the top

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
        changes = changes_of(given, sections or {}, more, known=self.keywords, top=self.top, verb=self.verb)
        if data is not None:
            changes = [*data_changes(data if opened is None else opened, _label(recipe)), *changes]
        read = self._read(recipe, changes)
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

    def _open(self, recipe: R, data: object, *, tasks: bool = False) -> Any:
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


TOWERS = RecipeKind("train", Recipe, read_recipe, KEYWORDS, tuple(Recipe.model_fields))
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
