"""`visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.headings import heading
from visir.cli.options import (
    DryRunOption,
    ListOption,
    OptionalModelOption,
    ResumeOption,
    SetOption,
    out_option,
)

if TYPE_CHECKING:
    from visir.sparse.recipe import SparseRecipe
    from visir.training.curve import Epoch

_DEFAULT = "sparse-any"
"""The recipe that is used when none is named."""


def sparsify(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: a TOML file, or the name of one that comes with visir (--list).")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="COLLECTION", help="A collection: what to learn from, instead of the recipe's."),
    ] = None,
    model: OptionalModelOption = None,
    variant: Annotated[
        str | None, typer.Option(help="Expansion of captions: none, free, caption, caption+word.")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="η, the weight of sparsity: 1e-5 (many terms) to 1e-2 (few).")
    ] = None,
    changes: SetOption = None,
    out: Annotated[Path | None, out_option("the folder of the model. Default: runs/NAME-seedSEED")] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    show: ListOption = False,
) -> None:
    """Train a sparse head over the vectors of any encoder; nothing is encoded again that is in the store.

    The folder that comes out is an encoder: give it to `visir search`, `visir index`, `visir evaluate`,
    `visir explain-vector` or `visir.load`. FOLDER?expansion=none uses it without expansion of captions.
    """
    from visir.training.shipped import find_recipe, shipped_recipes, summary

    if show:
        for name, path in shipped_recipes("sparsify").items():
            heading(name)
            output.line(f"    {summary(path)}")
        return
    from visir.errors import ConfigurationError, require

    if recipe is None and (data is None or model is None):
        raise ConfigurationError(
            "which collection and which model?",
            hint="visir sparsify --data COLLECTION --model MODEL, or name a recipe of `visir sparsify --list`",
        )
    require("torch", "safetensors", "tokenizers", extra="sparse", purpose="sparse heads")
    from visir.sparse.recipe import read_sparse_recipe

    # What a recipe says of where to get its own collection is no help with another one.
    obtain = None if data is None else ""
    options = {
        "data.collection": data,
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
    output.facts(model=Path(path).absolute())
    output.line(f"checkpoint: {path}\nlook at it: visir explain-vector --model {path} “a dog on a beach”")


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
    output.line(recipe_text(recipe))
    for name, split in (("train", splits.train), ("validation", splits.validation)):
        output.line(f"{name}: {split.images.num_rows:,} images, {split.captions.num_rows:,} captions")
    print_steps(recipe, splits.train.captions.num_rows)
    output.line(f"would write: {out}")
