"""The recipe: one small TOML file that says everything a training run depends on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

import visir
from visir.errors import ConfigurationError, nearest
from visir.files import data_directory
from visir.training.settings import Settings, read_settings

_SHIPPED = Path(visir.__file__).parent / "recipes"

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0)]


FITTED_WORDS = "bow:fitted:"
"""Before the number of words, the name of a bag of words that is fitted to the training captions."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _countable(name: str) -> str:
    if name.startswith(FITTED_WORDS.rstrip(":")):
        count = name.removeprefix(FITTED_WORDS)
        if not count.isdecimal() or int(count) == 0:
            raise ValueError(f"a fitted bag of words needs its number of words: {FITTED_WORDS}2048")
    return name


class Data(Settings):
    """What is learnt from.

    - `collection`: as `visir.collections.open_collection` takes it; "$VISIR_DATA" in it is the directory of real data
    - `images`: where the image bytes lie, when that is not where the collection's reader looks
    - `train`, `validation`: names of splits; several are joined by "+"
    - `obtain`: what to download and where to put it; shown when the data is not there
    """

    collection: str
    images: str | None = None
    train: str = "train"
    validation: str = "val"
    obtain: str = ""


class Backbones(Settings):
    """The frozen encoders, by the names that `visir.encoders.load` takes.

    `views` are of every image: "whole", "mirrored", "centre", "centre mirrored" (`visir.encoders.models.views`).
    Training sees one of them at random; in validation and in use their vectors are averaged. Each costs a forward pass
    per image. `text` may be several, whose vectors are then joined (`visir.encoders.models.joined`); "bow:fitted:2048"
    among them is a bag of the 2,048 most frequent words of the training captions, which is kept inside the checkpoint.
    """

    image: str
    views: Annotated[tuple[str, ...], Field(min_length=1)] = ("whole",)
    text: Annotated[
        tuple[Annotated[str, AfterValidator(_countable)], ...], Field(min_length=1), BeforeValidator(_listed)
    ]


class HeadShape(Settings):
    """One head; see `visir.encoders.models.heads.HeadSpec`."""

    hidden: tuple[Count, ...] = ()
    shortcut: bool = False
    scaling: Literal["unit", "standard", "none"] = "standard"
    dropout: Share = 0.0


class Model(Settings):
    """The two heads and the dimension of the space in which they meet."""

    dimension: Count = 512
    image: HeadShape = HeadShape()
    text: HeadShape = HeadShape()


class Objective(Settings):
    """What is made small; see `visir.training.objectives.infonce`."""

    name: Literal["infonce"] = "infonce"
    temperature: Positive = 0.05
    learn_temperature: bool = False
    siblings: Literal["apart", "negatives"] = "apart"


class Optimiser(Settings):
    """AdamW (Loshchilov & Hutter 2019) with a linear warm-up and a cosine decay to zero.

    - `batch`: captions per step; the batches of an epoch differ in size by at most one
    - `rate`: the learning rate at its peak; `warmup`: the share of all steps on the way up
    - `decay`: decoupled weight decay on matrices; biases and the temperature have none
    - `clip`: gradients are scaled down to this norm when they are longer
    """

    epochs: Count = 20
    batch: Annotated[int, Field(ge=2)] = 512
    rate: Positive = 1e-3
    warmup: Share = 0.05
    decay: Annotated[float, Field(ge=0.0)] = 0.01
    clip: Positive = 2.0


class Selection(Settings):
    """Which epoch's weights are kept.

    - `keep`: "rsum", the epoch with the best sum of hit@1, @5 and @10 of both directions on the validation split (the
      earliest of equals), or "last"
    - `patience`: stop after this many epochs without a better rsum; never, when it is left out
    """

    keep: Literal["rsum", "last"] = "rsum"
    patience: Count | None = None


class Recipe(Settings):
    """Heads on frozen embeddings. Everything that changes the result is here, and is saved beside it.

    `device` is where backbones and heads compute. The CPU is the default because there the same seed (and the same
    number of threads) gives the same bits.
    """

    kind: Literal["heads"] = "heads"
    name: Annotated[str, Field(pattern=r"^[\w.\-]+$")]
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "cpu"
    data: Data
    backbones: Backbones
    model: Model = Model()
    objective: Objective = Objective()
    optimiser: Optimiser = Optimiser()
    selection: Selection = Selection()


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe; `changes` are "section.key=value" and win over the file.

    Raises `ConfigurationError` with every fault at once: unknown keys (with the nearest known one), wrong types, values
    out of range, each with its line.
    """
    return read_settings(Recipe, path, changes)


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe: a path as it is, or the name of one that comes with visir ("scenes-heads").

    Raises `ConfigurationError` with the nearest name when there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = {one.stem: one for one in sorted(_SHIPPED.glob("*.toml"))}
    if str(name) in shipped:
        return shipped[str(name)]
    raise ConfigurationError(
        f"{name}: no such file, and no recipe of that name comes with visir.", hint=nearest(path.stem, shipped)
    )


def expand(text: str) -> str:
    """`text` with "$VISIR_DATA" replaced by the directory of real data."""
    return text.replace("$VISIR_DATA", str(data_directory()))
