"""`visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli.headings import heading

if TYPE_CHECKING:
    from visir.sparse.recipe import SparseRecipe
    from visir.training.curve import Epoch

_DEFAULT = "sparse-any"
"""The recipe that is used when none is named."""


def sparsify(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: a TOML file, or the name of one that comes with visir (--list).")
    ] = None,
    collection: Annotated[str | None, typer.Option(help="What to learn from, instead of the recipe's.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Whose vectors: a model, a checkpoint, npz:FILE.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Expansion of captions: none, free, caption, caption+word.")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="η, the weight of sparsity: 1e-5 (many terms) to 1e-2 (few).")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key: --set optimiser.epochs=5. May be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The checkpoint folder. Default: runs/NAME-seedSEED.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted training in that folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the resolved recipe and the steps.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Only print the recipes that come with visir.")] = False,
) -> None:
    """Train a sparse head over the vectors of any encoder; nothing is encoded again that is in the store.

    The folder that comes out is an encoder: give it to `visir search`, `visir index`, `visir evaluate`,
    `visir explain-vector` or `visir.load`. FOLDER?expansion=none uses it without expansion of captions.
    """
    from visir.training.shipped import find_recipe, shipped_recipes, summary

    if show:
        for name, path in shipped_recipes("sparsify").items():
            heading(name)
            typer.echo(f"    {summary(path)}")
        return
    from visir.errors import ConfigurationError, require

    if recipe is None and (collection is None or model is None):
        raise ConfigurationError(
            "which collection and which model?",
            hint="visir sparsify --collection COLLECTION --model MODEL, or name a recipe of `visir sparsify --list`",
        )
    require("torch", "safetensors", "tokenizers", extra="sparse", purpose="sparse heads")
    from visir.sparse.recipe import read_sparse_recipe

    # What a recipe says of where to get its own collection is no help with another one.
    obtain = None if collection is None else ""
    options = {
        "data.collection": collection,
        "data.obtain": obtain,
        "encoder": model,
        "expansion.variant": variant,
        "loss.eta": eta,
    }
    # Strings are written as TOML's own, so that a collection called "2024" stays a name.
    option_changes = [f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None]
    read = read_sparse_recipe(find_recipe(recipe or _DEFAULT, "sparsify"), [*option_changes, *(changes or ())])
    target = out or Path("runs") / f"{read.name}-seed{read.seed}"
    if dry_run:
        _print_plan(read, target)
    else:
        _train(read, target, resume)


def _train(recipe: SparseRecipe, out: Path, resume: bool) -> None:
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.sparse.run import sparsify as run

    lines = EpochLines(recipe.optimiser.epochs, _columns, ("mrr@10", "MRR@10"))
    path = print_epochs(lambda report: run(recipe, out, resume=resume, report=report), out, lines)
    typer.echo(f"checkpoint: {path}\nlook at it: visir explain-vector --model {path} “a dog on a beach”")


def _columns(epoch: Epoch) -> dict[str, str]:
    """Losses, p_c and terms."""
    return {
        **{name: f"{epoch.losses[name]:.3f}" for name in ("loss", "i2t", "t2i")},
        "p_c": f"{epoch.facts['p_c']:.2f}",
        **{name: f"{epoch.validation[name]:,.0f}" for name in ("image terms", "text terms")},
        "FLOPs": f"{epoch.validation['flops']:.1f}",
    }


def _print_plan(recipe: SparseRecipe, out: Path) -> None:
    from visir.cli.epochs import print_steps
    from visir.sparse.run import recipe_text
    from visir.training.data import open_whole, split_for_training

    splits = split_for_training(open_whole(recipe.data), recipe.data, recipe.selection)
    typer.echo(recipe_text(recipe))
    for name, split in (("train", splits.train), ("validation", splits.validation)):
        typer.echo(f"{name}: {split.images.num_rows:,} images, {split.captions.num_rows:,} captions")
    print_steps(recipe, splits.train.captions.num_rows)
    typer.echo(f"would write: {out}")
