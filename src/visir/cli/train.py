"""`visir train`: a recipe becomes a checkpoint that `load` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import (
    DeviceOption,
    DryRunOption,
    ImagesOption,
    ListOption,
    OptionalModelOption,
    RecipeArgument,
    ResumeOption,
    SetOption,
    out_option,
    single_or_all,
)
from visir.cli.recipes import BatchOption, DataOption, EpochsOption, SplitByOption, print_recipes
from visir.cli.verbs import examples
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders.checkpoints import Layout
    from visir.training.planning import TrainingPlan


_PAGE = "training.html"


@examples(
    "visir train --list",
    "visir train clip-finetune --data captions.csv --model openai/clip-vit-base-patch32 --out runs/mine",
)
def train(
    recipe: RecipeArgument = None,
    data: DataOption = None,
    images: ImagesOption = None,
    model: OptionalModelOption = None,
    image_model: Annotated[str | None, typer.Option(help="A model for images alone.")] = None,
    text_model: Annotated[str | None, typer.Option(help="A model for texts alone.")] = None,
    epochs: EpochsOption = None,
    batch: BatchOption = None,
    split_by: SplitByOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed draws anew.")] = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    out: Annotated[Path | None, out_option("the folder of the model. Default: runs/NAME-seedSEED")] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write event files into the folder's tensorboard/.")
    ] = False,
    show: ListOption = False,
) -> None:
    """Train or fine-tune a model by a recipe.

    Train on pictures and captions as a recipe says: tune a model, train heads over a frozen one, or begin anew.

    The folder that comes out is a model: give it to `visir evaluate`, `visir search` or `visir.load`. Its
    training.html shows the curves.

    Data without splits is divided: 9 of 10 pictures are trained on, 1 of 10 says how well it goes.

    Several processes: `torchrun --nproc-per-node 2 -m visir train RECIPE`, each with its share of every batch.
    """
    if show:
        print_recipes("train", recipe)
        return
    from visir.errors import ConfigurationError, require
    from visir.training.shipped import find_recipe

    if recipe is None:
        raise ConfigurationError("which recipe?", hint="name one of `visir train --list`, or a TOML file of your own")
    find_recipe(recipe)
    require("torch", "safetensors", extra="torch", purpose="training")
    options = {
        "model": model,
        "image_model": image_model,
        "text_model": text_model,
        "images": single_or_all(images),
        "split_by": split_by,
        "epochs": epochs,
        "batch": batch,
        "seed": seed,
        "device": device,
    }
    if dry_run:
        from visir.training.planning import plan

        _print_plan(plan(recipe, data, set=changes, **options), out)
    else:
        _train(recipe, data, options, changes, out, resume, tensorboard)


def _train(
    recipe: str,
    data: str | None,
    options: dict[str, Any],
    changes: list[str] | None,
    out: Path | None,
    resume: bool,
    tensorboard: bool,
) -> None:
    from visir.cli.epochs import EpochLines, print_epochs
    from visir.launched import launched
    from visir.storage import is_made_by_visir
    from visir.training.checkpoint import default_folder
    from visir.training.resolving import TOWERS
    from visir.training.run import layout_of
    from visir.training.run import train as run
    from visir.training.tensorboard import TensorBoard

    resolved, _ = TOWERS.resolve(recipe, data, options, more=changes)
    folder, layout = out or default_folder(resolved), layout_of(resolved)
    if launched()[0] == 0 and is_made_by_visir(folder, layout.kind.name) and not (folder / _PAGE).exists():
        _report(folder, layout)  # a killed training had written the checkpoint and not its page
    print_epochs(
        lambda report: run(resolved, out=folder, resume=resume, report=report),
        folder,
        EpochLines(resolved.optimiser.epochs),
        TensorBoard(folder) if tensorboard else None,
    )
    if launched()[0] == 0:
        page = _report(folder, layout)
        output.facts(model=folder.absolute(), curves=page.absolute())
        output.line(f"checkpoint: {folder}\ncurves:     {page}")


def _report(folder: Path, layout: Layout) -> Path:
    """The page of a training, beside its checkpoint."""
    from visir.reports.training import write_training_report
    from visir.storage import changing

    with changing(folder, layout.kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        return write_training_report(change.file(_PAGE), folder)


def _print_plan(planned: TrainingPlan, out: Path | None) -> None:
    from visir.cli.epochs import print_steps
    from visir.training.checkpoint import default_folder, recipe_text

    recipe = planned.recipe
    output.line(recipe_text(recipe, "train"))
    for split, images in planned.images.items():
        output.line(f"{split}: {counted(images, 'images')}, {counted(planned.captions[split], 'captions')}")
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
    output.line(f"would write: {out or default_folder(recipe)}")
