"""`visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from visir.records import Collection
    from visir.sparse.recipe import SparseRecipe
    from visir.training.curve import Epoch


@examples(
    "visir sparsify --data captions.csv --model openai/clip-vit-base-patch32",
)
def sparsify(
    recipe: RecipeArgument = None,
    data: DataOption = None,
    images: ImagesOption = None,
    model: OptionalModelOption = None,
    variant: Annotated[
        str | None, typer.Option(help="Expansion of captions: none, free, caption, caption+word.")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="η, the weight of sparsity: 1e-5 (many terms) to 1e-2 (few).")
    ] = None,
    epochs: EpochsOption = None,
    batch: BatchOption = None,
    split_by: SplitByOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed draws anew.")] = None,
    device: DeviceOption = None,
    changes: SetOption = None,
    out: Annotated[Path | None, out_option("the folder of the model. Default: runs/NAME-seedSEED")] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    show: ListOption = False,
) -> None:
    """Train a head that says vectors in weighted words.

    Train a head that says the vectors of any encoder in weighted words; no vector is computed twice.

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
    output.facts(model=out.absolute())
    output.line(f"checkpoint: {out}\nlook at it: visir explain-vector --model {out} “a dog on a beach”")


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
    from visir.encoders.broken import check_there, reads_pictures
    from visir.training.checkpoint import recipe_text
    from visir.training.data import split_for_training
    from visir.training.recipe import expand

    splits = split_for_training(collection, recipe.data, recipe.selection)
    if recipe.encoder and reads_pictures(expand(recipe.encoder)):
        check_there([splits.train, splits.validation])
    output.line(recipe_text(recipe, "sparsify"))
    for name, split in (("train", splits.train), ("validation", splits.validation)):
        output.line(
            f"{name}: {counted(split.images.num_rows, 'images')}, {counted(split.captions.num_rows, 'captions')}"
        )
    print_steps(recipe, splits.train.captions.num_rows)
    output.line(f"would write: {out}")
