"""`visir products train`: a recipe and a catalogue become a model of categories and products."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    DryRunOption,
    FoldsOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
    ListOption,
    ResumeOption,
    SetOption,
    SkipBrokenOption,
    options_of,
    out_option,
    single_or_all,
)
from visir.cli.train import EpochsOption
from visir.cli.verbs import Call, argument, calls, heading
from visir.cli.verbs import option as words
from visir.products.cli.evaluate import SOURCE, opened

if TYPE_CHECKING:
    from visir.products.model import CategoriesRecipe
    from visir.products.text_search import ProductAnswer


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
        str | None,
        typer.Option(
            "--image-model",
            metavar="MODEL",
            help="A model for images alone: mobilenet_v2, npz:FILE.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text-model",
            metavar="MODEL",
            help="A model for texts alone: st:all-MiniLM-L6-v2.",
        ),
    ] = None,
    epochs: EpochsOption = None,
    changes: SetOption = None,
    folds: FoldsOption = 5,
    fold: Annotated[int, typer.Option(min=1, help="The test fold, from 1: left out, for visir products evaluate.")] = 1,
    split_seed: Annotated[int, typer.Option(help="Another seed cuts other folds.")] = 0,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    skip_broken: SkipBrokenOption = False,
    out: Annotated[
        Path | None, out_option("the folder of the model. Default: runs/NAME-SETTING-foldN-seedSEED")
    ] = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    show: ListOption = False,
) -> None:
    """Train a model that finds products by the name of a category; their encoders stay as they are.

    The products of one fold are left out and a tenth of the others choose the epoch (`visir.products.task`), so that
    `visir products evaluate` can test the model with products it has never seen. One model per fold and setting.
    """
    if show:
        _print_recipes()
        return
    from visir.cli.train import EpochLines, print_epochs
    from visir.encoders.store import check_there, reads_pictures
    from visir.errors import ConfigurationError
    from visir.products.training import categories_recipe, default_folder, held_out
    from visir.products.training import train as run
    from visir.training.recipe import expand

    if catalogue is None:
        raise ConfigurationError("which catalogue?", hint="a file, or generated:2000 for one that needs no files")
    resolved = categories_recipe(recipe, image=image, text=text, epochs=epochs, lines=changes or ())
    products = opened(expand(catalogue), format, images, option)
    split = held_out(products, folds, fold, split_seed)
    target = out or default_folder(resolved, fold)
    output.line(f"{products.name}: {split.name}; {split.train.sum():,} products to learn from, "
               f"{split.validation.sum():,} to watch, {split.test.sum():,} left out")  # fmt: skip
    if dry_run:
        reads = "image" in resolved.product.modalities and reads_pictures(expand(resolved.encoders.image))
        if reads and not skip_broken:
            check_there([products.pictures()], "count them as absent: --skip-broken")
        _print_plan(resolved, int(split.train.sum()), target)
        return
    from visir.products.training import UNIT

    folder = print_epochs(
        lambda report: run(products, resolved, out=target, folds=folds, fold=fold, split_seed=split_seed,
                           skip_broken=skip_broken, resume=resume, report=report),
        target,
        EpochLines(resolved.optimiser.epochs, unit=UNIT),
    )  # fmt: skip
    output.line(f"model: {folder}")


def _print_recipes() -> None:
    import textwrap

    from visir.products.model import shipped_categories_recipes
    from visir.training.shipped import summary

    for name, path in shipped_categories_recipes().items():
        heading(name)
        output.line(textwrap.fill(summary(path), 100, initial_indent="    ", subsequent_indent="    "))


def _print_plan(recipe: CategoriesRecipe, products: int, out: Path) -> None:
    from visir.cli.train import print_steps
    from visir.products.training import COMMAND
    from visir.training.checkpoint import recipe_text

    output.line(recipe_text(recipe, COMMAND))
    print_steps(recipe, products)
    output.line(f"would write: {out}")


# `visir products infer`: categories for products that have none.


@calls(
    "visir.products.inference:infer_categories",
    catalogue=SOURCE,
    system=words(
        "A model: words (of titles and attributes), text:NAME, clip:NAME, or a trained model's folder.",
        "--model",
        "-m",
        to="model",
        default="words",
    ),
    above=words(
        "Answer only with this confidence or more, by the most specific category that reaches it: 0.9.",
        show_default=False,
    ),
    count=words("How many answers.", "-k", min=1),
    leave="products seed store",
)
def infer(
    call: Call,
    out: Annotated[Path | None, out_option("a new table with all answers: .csv, .tsv, .jsonl or .parquet")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
) -> None:
    """Infer the categories of products that have none, with a confidence that held-out products calibrate.

    The table that is read is not changed. Each product is compared with the products that have a category.
    """
    from visir.products.inference import write_inferred
    from visir.products.opening import check_new_table, open_uncategorised
    from visir.products.reports.inferred_view import shortened

    if out is not None:
        check_new_table(out)
    products, _ = open_uncategorised(
        call.given["catalogue"], format=format, images=single_or_all(images), **options_of(option)
    )
    inferred = call(catalogue=products)
    if out is not None:
        write_inferred(out, inferred)
    output.table(shortened(inferred))
    if out is not None:
        output.note(f"table: {out}")


# `visir products search`: search a catalogue by any words.

_TEXT = "Words and fusion"


@calls(
    "visir.products.text_search:search",
    catalogue=SOURCE,
    query=argument("TEXT", "The name of a category, or any words."),
    system=words(
        "A model: bm25f (words in titles, categories and attributes; the default), a trained model's folder, bm25, "
        "bm25:plain, text:NAME, clip:NAME. Repeatable: the answers are fused.",
        "--model",
        "-m",
        to="model",
        kind=list[str],
        default=None,
        show_default=False,
    ),
    fusion=words("How several systems are joined: rrf or weighted.", panel=_TEXT),
    weights=words(
        "The weight of each model in the fusion, in their order.",
        "--model-weight",
        to="weight",
        kind=list[float],
        panel=_TEXT,
    ),
    leave="text store",
)
def search(
    call: Call,
    language: Annotated[
        str, typer.Option(help="How words are compared: plural, none, english, german, …", rich_help_panel=_TEXT)
    ] = "plural",
    spelling: Annotated[bool, typer.Option(help="Correct misspelt words.", rich_help_panel=_TEXT)] = True,
    synonyms: Annotated[
        Path | None, typer.Option(help="A file of synonyms: lines a, b, c and a => b.", rich_help_panel=_TEXT)
    ] = None,
    near_words: Annotated[
        str | None,
        typer.Option(help="A text encoder, for words that no product has: st:…", rich_help_panel=_TEXT),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the answer as a page of pictures.")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
) -> None:
    """Find products by any words: ranked, with scores and the categories they belong to.

    Misspelt words are corrected, and the answer says so. When the words are the name of a category, answers that belong
    to it are marked.
    """
    from visir.products.text_search import TextOptions

    answer = call(
        catalogue=opened(call.given["catalogue"], format, images, option),
        system=call.given["system"] or "bm25f",
        text=TextOptions(language, spelling, synonyms, near_words),
    )
    if html is not None:
        from visir.products.reports.search import write_search_page

        write_search_page(html, answer, command=shlex.join(["visir", *sys.argv[1:]]))
    _show(answer)
    if html is not None:
        output.line(f"page: {html}")


def _show(answer: ProductAnswer) -> None:
    from visir.products.reports.search import table as answer_table

    output.table(answer_table(answer))
