"""`visir products train`: a recipe and a catalogue become a model of categories and products."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.headings import heading
from visir.cli.options import (
    DryRunOption,
    FoldsOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
    ListOption,
    ResumeOption,
    SetOption,
    SkipBrokenOption,
    out_option,
)
from visir.products.cli.source import opened

if TYPE_CHECKING:
    from visir.products.model.recipe import CategoriesRecipe
    from visir.products.vectors import CatalogueVectors

_DEFAULT = "clip-ita"


def train(
    catalogue: Annotated[
        str | None,
        typer.Argument(help="A file or folder in any known layout, or generated:2000.", show_default=False),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="A TOML file, or the name of one that comes with visir (--list).")
    ] = _DEFAULT,
    image: Annotated[
        str | None,
        typer.Option(
            "--image-model",
            metavar="MODEL",
            help="A model for images alone: mobilenet_v2, npz:FILE.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text-model",
            metavar="MODEL",
            help="A model for texts alone: st:all-MiniLM-L6-v2.",
        ),
    ] = None,
    changes: SetOption = None,
    folds: FoldsOption = 5,
    fold: Annotated[int, typer.Option(min=1, help="The test fold, from 1: left out, for visir products evaluate.")] = 1,
    split_seed: Annotated[int, typer.Option(help="Another seed cuts other folds.")] = 0,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    skip_broken: SkipBrokenOption = False,
    out: Annotated[
        Path | None, out_option("the folder of the model. Default: runs/NAME-SETTING-foldN-seedSEED")
    ] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    show: ListOption = False,
) -> None:
    """Train a model that finds products by the name of a category; their encoders stay as they are.

    The products of one fold are left out and a tenth of the others choose the epoch (`visir.products.split`), so that
    `visir products evaluate` can test the model with products it has never seen. One model per fold and setting.
    """
    if show:
        _print_recipes()
        return
    from visir.errors import ConfigurationError, require
    from visir.products.split import folds as cut

    if catalogue is None:
        raise ConfigurationError("which catalogue?", hint="a file, or generated:2000 for one that needs no files")
    require("torch", "safetensors", extra="torch", purpose="training")
    from visir.products.encoding import encode_catalogue
    from visir.products.model.recipe import find_categories_recipe, read_categories_recipe
    from visir.training.recipe import expand

    encoders = {"encoders.image": image, "encoders.text": text}
    of_options = [f"{key}={json.dumps(value)}" for key, value in encoders.items() if value is not None]
    resolved = read_categories_recipe(find_categories_recipe(recipe), [*of_options, *(changes or ())])
    products = opened(expand(catalogue), format, images, option)
    splits = cut(products, folds, split_seed)
    if not 1 <= fold <= folds:
        raise ConfigurationError(f"--fold {fold}: there are {folds}.", hint=f"1 to {folds}")
    split = splits[fold - 1]
    target = out or Path("runs") / f"{resolved.name}-{resolved.setting}-fold{fold}-seed{resolved.seed}"
    output.line(f"{products.name}: {split.name}; {split.train.sum():,} products to learn from, "
               f"{split.validation.sum():,} to watch, {split.test.sum():,} left out")  # fmt: skip
    if dry_run:
        _print_plan(resolved, int(split.train.sum()), target)
        return
    modalities = resolved.product.modalities
    vectors = encode_catalogue(
        products,
        image=expand(resolved.encoders.image) if "image" in modalities else None,
        text=expand(resolved.encoders.text),
        titles="title" in modalities,
        attributes="attributes" in modalities,
        skip_broken=skip_broken,
    )
    _train(resolved, vectors.keep_products(split.train), vectors.keep_products(split.validation), target, resume)


def _train(
    recipe: CategoriesRecipe, train: CatalogueVectors, validation: CatalogueVectors, out: Path, resume: bool
) -> None:
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.products.training import UNIT, train_categories

    model = print_epochs(
        lambda report: train_categories(recipe, train, validation, out, resume=resume, report=report),
        out,
        EpochLines(recipe.optimiser.epochs, unit=UNIT),
    )
    output.line(f"model: {model.name}")


def _print_recipes() -> None:
    import textwrap

    from visir.products.model.recipe import shipped_categories_recipes
    from visir.training.shipped import summary

    for name, path in shipped_categories_recipes().items():
        heading(name)
        output.line(textwrap.fill(summary(path), 100, initial_indent="    ", subsequent_indent="    "))


def _print_plan(recipe: CategoriesRecipe, products: int, out: Path) -> None:
    from visir.cli.epochs import print_steps
    from visir.products.training import COMMAND
    from visir.training.checkpoint import recipe_text

    output.line(recipe_text(recipe, COMMAND))
    print_steps(recipe, products)
    output.line(f"would write: {out}")
