"""`visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli.options import ImagesOption, single_or_all
from visir.cli.recipes import BatchOption, DataOption, EpochsOption, SetOption, SplitByOption, print_recipes

if TYPE_CHECKING:
    from visir.records import Collection
    from visir.sparse.recipe import SparseRecipe
    from visir.training.curve import Epoch


def sparsify(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: the name of one that comes with visir (--list), or a TOML file.")
    ] = None,
    data: DataOption = None,
    images: ImagesOption = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Whose vectors: a model, a checkpoint, npz:FILE.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Expansion of captions: none, free, caption, caption+word.")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="η, the weight of sparsity: 1e-5 (many terms) to 1e-2 (few).")
    ] = None,
    epochs: EpochsOption = None,
    batch: BatchOption = None,
    split_by: SplitByOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of everything that is random.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, auto. Default: the recipe's.")] = None,
    changes: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write. Default: runs/NAME-seedSEED.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted training in that folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the resolved recipe and the steps.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Only print the recipes that come with visir.")] = False,
) -> None:
    """Train a head that says the vectors of any encoder in weighted words; no vector is computed twice.

    The folder that comes out is a model: give it to `visir search`, `visir index`, `visir evaluate`,
    `visir explain-vector` or `visir.load`. FOLDER?expansion=none uses it without expansion of captions.
    """
    if show:
        print_recipes("sparsify", recipe)
        return
    from visir.errors import require

    require("torch", "safetensors", "tokenizers", extra="sparse", purpose="sparse heads")
    from visir.sparse.run import SPARSE
    from visir.training.checkpoint import default_folder

    options = {
        "model": model,
        "variant": variant,
        "eta": eta,
        "images": single_or_all(images),
        "split_by": split_by,
        "epochs": epochs,
        "batch": batch,
        "seed": seed,
        "device": device,
    }
    resolved, collection = SPARSE.resolve(recipe or "sparse", data, options, more=changes)
    folder = out or default_folder(resolved)
    if dry_run:
        _print_plan(resolved, collection, folder)
    else:
        _train(resolved, folder, resume)


def _train(recipe: SparseRecipe, out: Path, resume: bool) -> None:
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.sparse.run import sparsify as run

    lines = EpochLines(recipe.optimiser.epochs, _columns, ("mrr@10", "MRR@10"))
    print_epochs(lambda report: run(recipe=recipe, out=out, resume=resume, report=report), out, lines)
    typer.echo(f"checkpoint: {out}\nlook at it: visir explain-vector --model {out} “a dog on a beach”")


def _columns(epoch: Epoch) -> dict[str, str]:
    """Losses, p_c and terms."""
    return {
        **{name: f"{epoch.losses[name]:.3f}" for name in ("loss", "i2t", "t2i")},
        "p_c": f"{epoch.facts['p_c']:.2f}",
        **{name: f"{epoch.validation[name]:,.0f}" for name in ("image terms", "text terms")},
        "FLOPs": f"{epoch.validation['flops']:.1f}",
    }


def _print_plan(recipe: SparseRecipe, collection: Collection, out: Path) -> None:
    from visir.cli.epochs import print_steps
    from visir.training.checkpoint import recipe_text
    from visir.training.data import split_for_training

    splits = split_for_training(collection, recipe.data, recipe.selection)
    typer.echo(recipe_text(recipe, "sparsify"))
    for name, split in (("train", splits.train), ("validation", splits.validation)):
        typer.echo(f"{name}: {split.images.num_rows:,} images, {split.captions.num_rows:,} captions")
    print_steps(recipe, splits.train.captions.num_rows)
    typer.echo(f"would write: {out}")
