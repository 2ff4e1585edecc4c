"""`visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
            "what is to be said in words?",
            hint="visir sparsify --collection COLLECTION --model MODEL, or name a recipe of `visir sparsify --list`",
        )
    require("torch", "safetensors", "tokenizers", extra="sparse", purpose="sparse heads")
    from visir.sparse.recipe import read_sparse_recipe

    # What a recipe says of where to get its own collection is no help with another one.
    obtain = None if collection is None else ""
    said = {
        "data.collection": collection,
        "data.obtain": obtain,
        "encoder": model,
        "expansion.variant": variant,
        "loss.eta": eta,
    }
    # Strings are written as TOML's own, so that a collection called "2024" stays a name.
    asked = [f"{key}={json.dumps(value)}" for key, value in said.items() if value is not None]
    read = read_sparse_recipe(find_recipe(recipe or _DEFAULT, "sparsify"), [*asked, *(changes or ())])
    target = out or Path("runs") / f"{read.name}-seed{read.seed}"
    if dry_run:
        _print_plan(read, target)
    else:
        _train(read, target, resume)


def _train(recipe: SparseRecipe, out: Path, resume: bool) -> None:
    from visir.sparse.run import sparsify as run
    from visir.training.folder import STATE_FILE

    lines = _Lines(recipe.optimiser.epochs)

    def report(epoch: Epoch) -> None:
        for line in lines.of(epoch):
            typer.echo(line)

    try:
        path = run(recipe, out, resume=resume, report=report)
    except KeyboardInterrupt:
        if (out / STATE_FILE).is_file():
            typer.echo(f"\nstopped; the same command with --resume goes on from {out / STATE_FILE}", err=True)
        raise
    typer.echo(f"checkpoint: {path}\nlook at it: visir explain-vector --model {path} “a dog on a beach”")


class _Lines:
    """One line per epoch: losses, terms, validation (text to image), rate and time left. A star marks the best MRR."""

    def __init__(self, epochs: int) -> None:
        self._epochs, self._best, self._is_begun = epochs, float("-inf"), False

    def of(self, epoch: Epoch) -> Iterator[str]:
        """The line of an epoch, before the first one the heads of the columns."""
        losses, checked = epoch.losses, epoch.validation
        left = (self._epochs - epoch.epoch) * epoch.seconds
        cells = {
            "epoch": f"{epoch.epoch}/{self._epochs}",
            "loss": f"{losses['loss']:.3f}",
            "i2t": f"{losses['i2t']:.3f}",
            "t2i": f"{losses['t2i']:.3f}",
            "p_c": f"{epoch.facts['p_c']:.2f}",
            "image terms": f"{checked['image terms']:,.0f}",
            "text terms": f"{checked['text terms']:,.0f}",
            "FLOPs": f"{checked['flops']:.1f}",
            "MRR@10": f"{checked['mrr@10']:.1f}{'*' if checked['mrr@10'] > self._best else ' '}",
            "captions/s": f"{epoch.rate:,.0f}",
            "left": f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min",
        }
        widths = {name: max(len(name), 7) for name in cells}
        if not self._is_begun:
            yield " ".join(f"{name:>{width}}" for name, width in widths.items())
        self._is_begun, self._best = True, max(self._best, checked["mrr@10"])
        yield " ".join(f"{cells[name]:>{width}}" for name, width in widths.items())


def _print_plan(recipe: SparseRecipe, out: Path) -> None:
    from visir.sparse.examples import open_splits
    from visir.sparse.run import recipe_text
    from visir.training.batches import steps_per_epoch

    splits = open_splits(recipe)
    typer.echo(recipe_text(recipe))
    for name, split in zip(("train", "validation"), splits, strict=True):
        typer.echo(f"{name}: {split.images.num_rows:,} images, {split.captions.num_rows:,} captions")
    steps = steps_per_epoch(splits[0].captions.num_rows, recipe.optimiser.batch)
    typer.echo(f"steps: {steps:,} an epoch, {steps * recipe.optimiser.epochs:,} in {recipe.optimiser.epochs} epochs")
    typer.echo(f"would write: {out}")
