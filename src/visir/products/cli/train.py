"""`visir products train`: a recipe and a catalogue become a model of categories and products."""

from __future__ import annotations

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
from visir.cli.recipes import EpochsOption
from visir.products.cli.source import opened

if TYPE_CHECKING:
    from visir.products.model.recipe import CategoriesRecipe

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
    epochs: EpochsOption = None,
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
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.encoders.broken import check_there, reads_pictures
    from visir.errors import ConfigurationError
    from visir.products.fold_training import categories_recipe, default_folder, held_out
    from visir.products.fold_training import train as run
    from visir.training.recipe import expand

    if catalogue is None:
        raise ConfigurationError("which catalogue?", hint="a file, or generated:2000 for one that needs no files")
    resolved = categories_recipe(recipe, image=image, text=text, epochs=epochs, lines=changes or ())
    products = opened(expand(catalogue), format, images, option)
    split = held_out(products, folds, fold, split_seed)
    target = out or default_folder(resolved, fold)
    output.line(f"{products.name}: {split.name}; {split.train.sum():,} products to learn from, "
               f"{split.validation.sum():,} to watch, {split.test.sum():,} left out")  # fmt: skip
    if dry_run:
        reads = "image" in resolved.product.modalities and reads_pictures(expand(resolved.encoders.image))
        if reads and not skip_broken:
            check_there([products.pictures()], "count them as absent: --skip-broken")
        _print_plan(resolved, int(split.train.sum()), target)
        return
    from visir.products.training import UNIT

    folder = print_epochs(
        lambda report: run(products, resolved, out=target, folds=folds, fold=fold, split_seed=split_seed,
                           skip_broken=skip_broken, resume=resume, report=report),
        target,
        EpochLines(resolved.optimiser.epochs, unit=UNIT),
    )  # fmt: skip
    output.line(f"model: {folder}")


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
