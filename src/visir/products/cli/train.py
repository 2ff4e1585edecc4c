"""`visir products train`: a recipe and a catalogue become a model of categories and products."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from visir.cli import output
from visir.cli.options import argument, option, options_of, single_or_all
from visir.cli.verbs import Call, calls, heading
from visir.products.cli.evaluate import SOURCE, opened

if TYPE_CHECKING:
    from visir.products.model import CategoriesRecipe


_DEFAULT = "clip-ita"


def train(
    catalogue: Annotated[str | None, argument("CATALOGUE")] = None,
    recipe: Annotated[str, option()] = _DEFAULT,
    image: Annotated[str | None, option("--image-model", metavar="MODEL")] = None,
    text: Annotated[str | None, option("--text-model", metavar="MODEL")] = None,
    epochs: int | None = None,
    changes: list[str] | None = None,
    folds: int = 5,
    fold: Annotated[int, option(min=1)] = 1,
    split_seed: int = 0,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
    skip_broken: bool = False,
    out: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    show: bool = False,
) -> None:
    """Train a model that finds products by the name of a category; their encoders stay as they are.

    The products of one fold are left out and a tenth of the others choose the epoch (`visir.products.task`), so that
    `visir products evaluate` can test the model with products it has never seen. One model per fold and setting.

    Args:
        catalogue: A file or folder in any known layout, or generated:2000.
        recipe: A TOML file, or the name of one that comes with visir (--list).
        image: A model for images alone: mobilenet_v2, npz:FILE.
        text: A model for texts alone: st:all-MiniLM-L6-v2.
        fold: The test fold, from 1: left out, for visir products evaluate.
        split_seed: Another seed cuts other folds.
        out: Where to write: the folder of the model. Default: runs/NAME-SETTING-foldN-seedSEED.
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
    system=option("--model", "-m", to="model", default="words"),
    count=option("-k", min=1),
    leave="products seed store",
)
def infer(
    call: Call,
    out: Path | None = None,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
) -> None:
    """Infer the categories of products that have none, with a confidence that held-out products calibrate.

    The table that is read is not changed. Each product is compared with the products that have a category.

    Args:
        count: How many answers.
        out: Where to write: a new table with all answers: .csv, .tsv, .jsonl or .parquet.
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
    query=argument("TEXT"),
    system=option("--model", "-m", to="model", kind=list[str], default=None),
    fusion=option(panel=_TEXT),
    weights=option("--model-weight", to="weight", kind=list[float], panel=_TEXT),
    leave="text store",
)
def search(
    call: Call,
    language: Annotated[str, option(panel=_TEXT)] = "plural",
    spelling: Annotated[bool, option(panel=_TEXT)] = True,
    synonyms: Annotated[Path | None, option(panel=_TEXT)] = None,
    near_words: Annotated[str | None, option(panel=_TEXT)] = None,
    html: Path | None = None,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
) -> None:
    """Find products by any words: ranked, with scores and the categories they belong to.

    Misspelt words are corrected, and the answer says so. When the words are the name of a category, answers that belong
    to it are marked.

    Args:
        query: The name of a category, or any words.
        model: A model: bm25f (words in titles, categories and attributes; the default), a trained model's folder, bm25,
            bm25:plain, text:NAME, clip:NAME. Repeatable: the answers are fused.
        language: How words are compared: plural, none, english, german, …
        spelling: Correct misspelt words.
        synonyms: A file of synonyms: lines a, b, c and a => b.
        near_words: A text encoder, for words that no product has: st:…
        html: Write the answer as a page of pictures.
    """
    from visir.products.reports.search import table as answer_table
    from visir.products.text_search import TextOptions

    answer = call(
        catalogue=opened(call.given["catalogue"], format, images, option),
        system=call.given["system"] or "bm25f",
        text=TextOptions(language, spelling, synonyms, near_words),
    )
    if html is not None:
        from visir.products.reports.search import write_search_page

        write_search_page(html, answer, command=shlex.join(["visir", *sys.argv[1:]]))
    output.table(answer_table(answer))
    if html is not None:
        output.line(f"page: {html}")
