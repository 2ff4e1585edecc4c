"""`visir train`: a recipe becomes a checkpoint that `load` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from visir.cli import output
from visir.cli.options import argument, complete_model, of, option
from visir.cli.verbs import Call, calls, examples, heading
from visir.display import counted
from visir.terminal import safe

if TYPE_CHECKING:
    from visir.encoders.checkpoints import Layout
    from visir.training.planning import TrainingPlan
    from visir.training.recipe import Regime
    from visir.training.trained import Epoch


# The list of recipes, of every verb that runs some.


def print_recipes(verb: str, within: str | None = None) -> None:
    """Print the recipes of a verb under their headings; of tables of papers only how many, unless asked for."""
    from visir.training.shipped import GROUPS, recipes

    chosen = recipes(verb, within)
    output.answer([{"name": recipe.name, "title": recipe.title, "group": recipe.group} for recipe in chosen])
    if output.wants_json():
        return
    for group in chosen.groups:
        members = [recipe for recipe in chosen if recipe.group == group]
        heading(GROUPS[group])
        if GROUPS[group].startswith("Papers") and within is None:
            output.line(f"  {len(members)} recipes: visir {verb} {group} --list")
        else:
            width = max(len(recipe.name) for recipe in members)
            for recipe in members:
                output.line(safe(f"  {recipe.name:<{width}}  {recipe.title}"))
    if within is None:
        output.line(f"\nEverything that a recipe says: visir {verb} NAME --dry-run")


_PAGE = "training.html"


@calls(
    "visir.training.run:train",
    recipe=option(default=None),
    set=option(to="changes"),
    leave="out rate resume report",
)
@examples(
    "visir train --list",
    "visir train clip-finetune --data captions.csv --model openai/clip-vit-base-patch32 --out runs/mine",
)
def train(
    call: Call,
    out: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    tensorboard: bool = False,
    show: bool = False,
) -> None:
    """Train or fine-tune a model by a recipe.

    Train on pictures and captions as a recipe says: tune a model, train heads over a frozen one, or begin anew.

    The folder that comes out is a model: give it to `visir evaluate`, `visir search` or `visir.load`. Its
    training.html shows the curves.

    Data without splits is divided: 9 of 10 pictures are trained on, 1 of 10 says how well it goes.

    Several processes: `torchrun --nproc-per-node 2 -m visir train RECIPE`, each with its share of every batch.

    Args:
        image_model: A model for images alone.
        text_model: A model for texts alone.
        out: Where to write: the folder of the model. Default: runs/NAME-seedSEED.
        tensorboard: Also write event files into the folder's tensorboard/.
    """
    options = dict(call.given)
    recipe, data, changes = (options.pop(name) for name in ("recipe", "data", "set"))
    if show:
        print_recipes("train", recipe)
        return
    from visir.errors import ConfigurationError, require
    from visir.training.shipped import find_recipe

    if recipe is None:
        raise ConfigurationError("which recipe?", hint="name one of `visir train --list`, or a TOML file of your own")
    find_recipe(recipe)
    require("torch", "safetensors", extra="torch", purpose="training")
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
    from visir.storage import is_made_by_visir
    from visir.threads import launched
    from visir.training.checkpoint import TensorBoard, default_folder
    from visir.training.data import TOWERS
    from visir.training.run import layout_of, train_resolved

    resolved, collection = TOWERS.resolve(recipe, data, options, more=changes)
    folder, layout = out or default_folder(resolved), layout_of(resolved)
    if launched()[0] == 0 and is_made_by_visir(folder, layout.kind.name) and not (folder / _PAGE).exists():
        _report(folder, layout)  # a killed training had written the checkpoint and not its page
    print_epochs(
        lambda report: train_resolved(resolved, collection, folder, resume=resume, report=report),
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
    from visir.reports.training import training_report
    from visir.storage import changing

    with changing(folder, layout.kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        with change.replacing(_PAGE) as path:
            training_report(folder).write(path.with_suffix(".html"), replace=True)
        return folder / _PAGE


def _print_plan(planned: TrainingPlan, out: Path | None) -> None:
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


# What a training prints: one line per epoch in columns, and how to go on when it was stopped.

R = TypeVar("R")

Columns = Callable[["Epoch"], Mapping[str, str]]
"""The columns of an epoch between its number and the figure by which epochs are compared."""


def print_epochs(
    train: Callable[[Callable[[Epoch], None]], R],
    out: Path,
    lines: EpochLines,
    board: AbstractContextManager[Callable[[Epoch], None] | None] | None = None,
) -> R:
    """Train, and print a line per epoch."""
    from visir.training.trained import STATE_FILE

    with board or nullcontext() as log:

        def report(epoch: Epoch) -> None:
            for line in lines.of(epoch):
                output.line(line)
            if log is not None:
                log(epoch)

        try:
            return train(report)
        except KeyboardInterrupt:
            if (out / STATE_FILE).is_file():
                typer.echo(f"\nstopped; the same command with --resume goes on from {out / STATE_FILE}", err=True)
            raise


def print_steps(recipe: Regime, examples: int) -> None:
    """Print how many steps a training over so many examples has."""
    from visir.training.processes import steps_per_epoch

    settings = recipe.optimiser
    steps = steps_per_epoch(examples, settings.batch, settings.accumulate)
    output.line(f"steps: {steps:,} an epoch, {steps * settings.epochs:,} in {settings.epochs} epochs")


class EpochLines:
    """A line per epoch, before the first one the heads of the columns; within 100 columns for towers."""

    def __init__(
        self,
        epochs: int,
        columns: Columns | None = None,
        figure: tuple[str, str] = ("rsum", "val rsum"),
        unit: str = "captions",
    ) -> None:
        self._epochs, self._columns, self._figure, self._unit = epochs, columns or loss_columns, figure, unit
        self._best = float("-inf")
        self._has_heads = False

    def of(self, epoch: Epoch) -> Iterator[str]:
        """The line of an epoch, before the first one the heads of the columns."""
        name, head = self._figure
        value = epoch.validation[name]
        cells = {
            "epoch": f"{epoch.epoch}/{self._epochs}",
            **self._columns(epoch),
            head: f"{value:.1f}{'*' if value > self._best else ' '}",
            f"{self._unit}/s": f"{epoch.rate:,.0f}",
            "left": _time((self._epochs - epoch.epoch) * epoch.seconds),
        }
        widths = {name: max(len(name), 7) for name in cells}
        if not self._has_heads:
            yield " ".join(f"{name:>{width}}" for name, width in widths.items())
        self._has_heads = True
        self._best = max(self._best, value)
        yield " ".join(f"{cells[name]:>{width}}" for name, width in widths.items())


def loss_columns(epoch: Epoch) -> dict[str, str]:
    """The loss; its parts when there are several, each reconstruction loss with its multiplier; the temperature."""
    losses, facts = epoch.losses, epoch.facts
    parts = {name: value for name, value in losses.items() if name != "loss"}
    cells = {"loss": f"{losses['loss']:.3f}"}
    if len(parts) > 1:
        for name, value in parts.items():
            cells[name] = f"{value:.3f}"
            if f"{name} multiplier" in facts:
                cells[f"{name} λ"] = f"{facts[f'{name} multiplier']:.2f}"
    if "temperature" in facts:
        cells["τ"] = f"{facts['temperature']:.4f}"
    return cells


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


# `visir export`: a model as a folder for the Hugging Face Hub.


@calls(
    "visir.reports.export:export",
    results=argument("[RESULT]…", kind=list[str] | None, default=None),
    repository=option(metavar="OWNER/NAME"),
    framework=option(autocompletion=of("auto", "visir", "transformers")),
    base=option(kind=list[str], metavar="[PATH=]OWNER/NAME"),
    reads=option(kind=list[str], metavar="CODE"),
    trained_on=option(kind=list[str], metavar="OWNER/NAME"),
    dataset=option(kind=list[str], metavar="COLLECTION=OWNER/NAME"),
    headline=option(metavar="MEASURE"),
    leave="model out",
)
@examples(
    "visir export runs/mine results/flickr8k --out hub/mine --repository me/mine --licence mit --reads en",
    "visir export runs/lora --out hub/lora --base openai/clip-vit-base-patch32",
    "visir export openai/clip-vit-base-patch32 results/nfcorpus --dataset NFCorpus=mteb/nfcorpus --out hub/numbers",
    "visir export runs/mine results/flickr8k --out hub/mine --upload me/mine",
)
def export(
    model: Annotated[str, argument("MODEL", autocompletion=complete_model)],
    call: Call,
    out: Path,
    upload: Annotated[str, option(metavar="OWNER/NAME")] = "",
    public: bool = False,
) -> None:
    """Write a model as a folder for the Hugging Face Hub.

    Write the weights, a model card, and results with their protocol (.eval_results). The folder is one that
    huggingface_hub uploads as it is.

    Nothing is uploaded without --upload; the command that does it later is printed.

    Args:
        model: The folder of a model. A name on the Hub: its weights are there, so only results are written, for a
            pull request.
        results: Folders that visir evaluate --out wrote.
        framework: Whose folder it becomes: visir, transformers (a tuned model of that library). Default: the second
            where it can.
        base: What a model that lies on this machine is called on the Hub. Repeatable.
        reads: The languages of its texts: en, de. Repeatable.
        trained_on: Data on the Hub that it was trained on. Repeatable.
        dataset: Where the Hub has the data of results, also COLLECTION:TASK=OWNER/NAME:TASK_ID. Repeatable.
        headline: The measure in .eval_results: R@1, nDCG@10. Default: the first of the card.
        out: Where to write: a new folder.
        upload: Upload it to this repository, with the token of your environment.
        public: A repository that is made by --upload is for everybody.
    """
    from visir.storage.disk import files_below

    options = {"repository": upload} if upload and not call.given["repository"] else {}
    folder = call(model=model, results=call.given["results"] or (), out=out, **options)
    output.facts(
        folder=str(folder.path), files=len(files_below(folder.path)), notes=list(folder.notes), command=folder.command
    )
    output.line(f"folder: {folder.path}")
    for note in folder.notes:
        output.note(note)
    if upload:
        address = folder.upload(upload, private=not public)
        output.facts(uploaded=address)
        output.line(f"uploaded: {address}")
    else:
        output.note(f"nothing was uploaded. To do it: {folder.command}")


# `visir models`: which models there are, and everything about one of them.


@examples(
    "visir models",
    "visir models siglip",
    "visir models german --takes image",
    "visir models --takes image --takes text --form multi-vector",
    "visir models google/siglip2-base-patch16-224",
)
def models(
    words: Annotated[list[str] | None, argument("[WORDS]", autocompletion=complete_model)] = None,
    takes: Annotated[list[str] | None, option(autocompletion=of("image", "text", "text+image"))] = None,
    form: Annotated[str, option(autocompletion=of("dense", "sparse", "multi-vector"))] = "",
) -> None:
    """List models by name: what they take, size, licence.

    List well-known models: what they take, which vectors they make, how large they are, under which licence, and
    whether they are on this machine.

    Any other model of a family loads too. Nothing is downloaded, and no weights are read.

    Args:
        words: A model's name or folder: everything about it. Other words (siglip, german): models that have them.
        takes: Models that encode this: image, text, or text+image (both as one item). Repeatable.
        form: Models with such vectors: dense, sparse or multi-vector.
    """
    from visir.encoders.families import OF_FAMILIES
    from visir.encoders.families import models as listed
    from visir.reports.views.lists import details, model_facts

    chosen = listed(" ".join(words or ()), takes=takes or (), form=form)
    output.answer([asdict(model) for model in chosen])
    if output.wants_json():
        return
    if len(chosen) == 1:
        output.table(model_facts(chosen[0]))
        return
    for group in chosen.groups:
        heading(group)
        members = [model for model in chosen if model.group == group]
        width = max(len(model.name) for model in members)
        for model in members:
            output.line(safe(f"  {model.name:<{width}}  {model.title}"))
            if group != OF_FAMILIES:
                output.text(f"      {details(model)}", "dim")
    if not (words or takes or form):
        output.note("\nEverything about one: visir models NAME. Which ones load here: visir doctor --load NAME")
