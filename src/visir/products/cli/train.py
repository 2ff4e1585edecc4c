"""`visir products train`: a recipe and a catalogue become a model of categories and products."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli.data import Images
from visir.cli.headings import heading
from visir.products.cli.source import FormatName, Options, opened

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
        str | None, typer.Option(help="The encoder of pictures, instead of the recipe's: mobilenet_v2, npz:FILE.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The encoder of names, titles and attributes: st:all-MiniLM-L6-v2.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key: --set optimiser.epochs=5. May be repeated."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Into how many folds the products are cut.")] = 5,
    fold: Annotated[int, typer.Option(help="Which fold is held out for `visir products evaluate`; from 1.")] = 1,
    split_seed: Annotated[int, typer.Option(help="Another seed cuts other folds.")] = 0,
    format: FormatName = None,
    images: Images = None,
    option: Options = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Pictures that cannot be read count as absent.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The folder to make. Default: runs/NAME-SETTING-foldN-seedSEED.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted training in that folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the resolved recipe and the pairs.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Only print the recipes that come with visir.")] = False,
) -> None:
    """Train a model that finds products by the name of a category; their encoders stay as they are.

    The products of one fold are left out and a tenth of the others choose the epoch (`visir.products.split`), so that
    `visir products evaluate` can test the model with products it has never seen. One model per fold and setting.
    """
    if show:
        _print_recipes()
        return
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.errors import ConfigurationError
    from visir.products.fold_training import categories_recipe, default_folder, held_out
    from visir.products.fold_training import train as run
    from visir.training.recipe import expand

    if catalogue is None:
        raise ConfigurationError("which catalogue?", hint="a file, or generated:2000 for one that needs no files")
    resolved = categories_recipe(recipe, image=image, text=text, lines=changes or ())
    products = opened(expand(catalogue), format, images, option)
    split = held_out(products, folds, fold, split_seed)
    target = out or default_folder(resolved, fold)
    typer.echo(f"{products.name}: {split.name}; {split.train.sum():,} products to learn from, "
               f"{split.validation.sum():,} to watch, {split.test.sum():,} left out")  # fmt: skip
    if dry_run:
        _print_plan(resolved, int(split.train.sum()), target)
        return
    from visir.products.training import UNIT

    folder = print_epochs(
        lambda report: run(products, resolved, out=target, folds=folds, fold=fold, split_seed=split_seed,
                           skip_broken=skip_broken, resume=resume, report=report),
        target,
        EpochLines(resolved.optimiser.epochs, unit=UNIT),
    )  # fmt: skip
    typer.echo(f"model: {folder}")


def _print_recipes() -> None:
    import textwrap

    from visir.products.model.recipe import shipped_categories_recipes
    from visir.training.shipped import summary

    for name, path in shipped_categories_recipes().items():
        heading(name)
        typer.echo(textwrap.fill(summary(path), 100, initial_indent="    ", subsequent_indent="    "))


def _print_plan(recipe: CategoriesRecipe, products: int, out: Path) -> None:
    from visir.cli.epochs import print_steps
    from visir.products.training import COMMAND
    from visir.training.checkpoint import recipe_text

    typer.echo(recipe_text(recipe, COMMAND))
    print_steps(recipe, products)
    typer.echo(f"would write: {out}")
