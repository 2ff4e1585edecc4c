"""`visir train`: a recipe becomes a checkpoint that `load` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.training.fit import Epoch, Report
    from visir.training.recipe import Recipe


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe: a TOML file, or one that comes with visir: scenes-heads, flickr8k-heads.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key: --set optimiser.epochs=5. May be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The checkpoint folder. Default: runs/NAME-seedSEED.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted training in that folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the resolved recipe, parameters, steps and memory.")
    ] = False,
) -> None:
    """Train heads over two frozen encoders, as a recipe says.

    The folder that comes out is an encoder: give it to `visir evaluate`, `visir search` or `visir.encoders.load`.
    """
    from visir.errors import require
    from visir.training.recipe import find_recipe, read_recipe

    require("torch", "safetensors", extra="torch", purpose="training heads")
    read = read_recipe(find_recipe(recipe), changes or ())
    target = out or Path("runs") / f"{read.name}-seed{read.seed}"
    if dry_run:
        _print_plan(read, target)
        return
    from visir.training.heads import train_heads

    path = train_heads(read, target, resume=resume, report=_reporter(read))
    typer.echo(f"checkpoint: {path}")


def _reporter(recipe: Recipe) -> Report:
    """One line per epoch: loss, temperature, validation rsum, captions per second, time left."""
    best = 0.0

    def line(epoch: Epoch) -> None:
        nonlocal best
        rsum = epoch.validation["rsum"]
        mark = " *" if rsum > best else ""
        best = max(best, rsum)
        left = (recipe.optimiser.epochs - epoch.epoch) * epoch.seconds
        typer.echo(
            f"epoch {epoch.epoch:>3}/{recipe.optimiser.epochs}  loss {epoch.loss:.3f}  "
            f"temperature {epoch.temperature:.4f}  val rsum {rsum:6.1f}{mark:<2}  "
            f"{epoch.rate:,.0f} captions/s  {left:,.0f} s left"
        )

    return line


def _print_plan(recipe: Recipe, out: Path) -> None:
    from visir.training.heads import plan_heads, recipe_text

    plan = plan_heads(recipe)
    typer.echo(recipe_text(recipe))
    for split in ("train", "validation"):
        typer.echo(f"{split}: {plan.images[split]:,} images, {plan.captions[split]:,} captions")
    for side, count in plan.parameters.items():
        typer.echo(f"{side} head: {plan.dimensions[side]:,} → {recipe.model.dimension:,}, {count:,} parameters")
    typer.echo(f"steps: {plan.steps:,} ({recipe.optimiser.epochs} epochs)")
    typer.echo(f"memory: about {plan.memory / 2**20:,.0f} MB, backbones not counted")
    typer.echo(f"would write: {out}")
