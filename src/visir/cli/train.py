"""`visir train`: a recipe becomes a checkpoint that `load` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.headings import heading
from visir.cli.options import (
    DryRunOption,
    ListOption,
    ResumeOption,
    SetOption,
    out_option,
)

if TYPE_CHECKING:
    from visir.training.recipe import Recipe


_PAGE = "training.html"


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: a TOML file, or the name of one that comes with visir (--list).")
    ] = None,
    changes: SetOption = None,
    out: Annotated[Path | None, out_option("the folder of the model. Default: runs/NAME-seedSEED")] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write event files into the folder's tensorboard/.")
    ] = False,
    show: ListOption = False,
) -> None:
    """Train a dual encoder as a recipe says: from scratch, fine-tuned, or heads over frozen encoders.

    The folder that comes out is an encoder: give it to `visir evaluate`, `visir search` or `visir.load`. Its
    training.html shows the curves.

    Several processes: `torchrun --nproc-per-node 2 -m visir train RECIPE`, each with its share of every batch.
    """
    if show:
        _print_recipes()
        return
    from visir.errors import ConfigurationError, require
    from visir.training.shipped import find_recipe

    if recipe is None:
        raise ConfigurationError("which recipe?", hint="name one of `visir train --list`, or a TOML file of your own")
    path = find_recipe(recipe)
    require("torch", "safetensors", extra="torch", purpose="training")
    from visir.training.recipe import read_recipe

    read = read_recipe(path, changes or ())
    target = out or Path("runs") / f"{read.name}-seed{read.seed}"
    if dry_run:
        _print_plan(read, target)
    else:
        _train(read, target, resume, tensorboard)


def _train(recipe: Recipe, out: Path, resume: bool, tensorboard: bool) -> None:
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.encoders.models.tower_files import LAYOUT
    from visir.launched import launched
    from visir.storage import is_made_by_visir
    from visir.training.run import train as run
    from visir.training.tensorboard import TensorBoard

    if launched()[0] == 0 and is_made_by_visir(out, LAYOUT.kind.name) and not (out / _PAGE).exists():
        _report(out)  # a killed training had written the checkpoint and not its page
    path = print_epochs(
        lambda report: run(recipe, out, resume=resume, report=report),
        out,
        EpochLines(recipe.optimiser.epochs),
        TensorBoard(out) if tensorboard else None,
    )
    if launched()[0] == 0:
        page = _report(path)
        output.facts(model=Path(path).absolute(), curves=Path(page).absolute())
        output.line(f"checkpoint: {path}\ncurves:     {page}")


def _report(folder: Path) -> Path:
    """The page of a training, beside its checkpoint."""
    from visir.encoders.models.tower_files import LAYOUT
    from visir.reports.training import write_training_report
    from visir.storage import changing

    with changing(folder, LAYOUT.kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        return write_training_report(change.file(_PAGE), folder)


def _print_recipes() -> None:
    import textwrap

    from visir.training.shipped import shipped_recipes, summary

    for name, path in shipped_recipes().items():
        heading(name)
        output.line(textwrap.fill(summary(path), 100, initial_indent="    ", subsequent_indent="    "))


def _print_plan(recipe: Recipe, out: Path) -> None:
    from visir.cli.epochs import print_steps
    from visir.training.planning import plan
    from visir.training.run import recipe_text

    planned = plan(recipe)
    output.line(recipe_text(recipe))
    for split, images in planned.images.items():
        output.line(f"{split}: {images:,} images, {planned.captions[split]:,} captions")
    for name, count in planned.parameters.items():
        parts = [f"{count.trained:,} parameter{'' if count.trained == 1 else 's'} trained"]
        if count.first_fixed and recipe.schedule.frozen_epochs:
            parts.append(f"{count.first_fixed:,} of them held fixed for {recipe.schedule.frozen_epochs} epochs")
        if count.fixed:
            parts.append(f"{count.fixed:,} held fixed")
        output.line(f"{name}: {', '.join(parts)}")
    print_steps(recipe, planned.captions["train"])
    memory = planned.memory
    output.line(f"memory: about {memory.total / 2**20:,.0f} MiB, of which")
    for name, size in (
        ("libraries, encoders, fresh weights", memory.process),
        ("gradients, moments, copies of the weights", memory.weights),
        ("frozen vectors, prepared pictures, captions", memory.features),
        ("activations of a step", memory.activations),
    ):
        output.line(f"  {size / 2**20:>9,.0f}  {name}")
    output.line(f"would write: {out}")
