"""`visir shortcuts`: synthetic shortcuts, looked at, and what a training loses to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from visir.cli import output
from visir.cli.options import argument, command_line, option
from visir.cli.train import print_recipes
from visir.cli.verbs import Call, calls, examples, group, reports
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Collection, Vectors
    from visir.sparse.recipe import SparseRecipe
    from visir.sparse.top_terms import TopTerms
    from visir.training.trained import Epoch


def preview_command(
    collection: str,
    shortcuts: str = "unique",
    split: str | None = None,
    images: list[str] | None = None,
    count: int = 12,
    size: Annotated[int, option(min=32)] = 224,
    out: Path = Path("shortcuts.html"),
    replace: bool = False,
) -> None:
    """Write a sheet of pictures and captions with their shortcuts, as a model sees them at evaluation.

    Nothing else is written: shortcuts are put on when a model looks at a picture or a caption, not into the collection.

    Args:
        collection: A file or folder in any known format, FORMAT:PATH, or scenes:2000.
        shortcuts: Synthetic shortcuts on pictures and captions: unique, or bits:3 for 2^3 numbers; behind it ?on=images
            (or captions), ?per=caption, ?digits=sklearn, ?placement=packed, ?seed=1, several joined by &.
        size: The model's input, in pixels.
        out: Where to write: a sheet, named .html or .png.
    """
    from visir.collections import open_collection
    from visir.reports.page import check_page
    from visir.reports.sheets import NO_SHEET, write_sheet
    from visir.shortcuts import inject
    from visir.shortcuts.view import preview_pairs

    check_page(out, NO_SHEET, ".png", replace=replace)
    # Injected first and split afterwards, so that numbers are those of the whole collection.
    view = inject(open_collection(collection, images=images), shortcuts).split(split)
    pairs = preview_pairs(view, count, size)
    write_sheet(out, pairs, view, replace=replace)
    output.facts(sheet=out.absolute(), pairs=len(pairs), shortcuts=str(view.injected))
    output.line(f"{view.injected}")
    output.line(f"{out}: {counted(len(pairs), 'pairs')}")


@reports
def audit_command(
    recipe: Annotated[str, argument("RECIPE")],
    changes: list[str] | None = None,
    bits: list[int] | None = None,
    seeds: Annotated[list[int] | None, option("--seed", min=0)] = None,
    jobs: int | None = None,
    out: Path | None = None,
) -> None:
    """Train a recipe with more and more bits of shortcut and say how much retrieval it loses per bit.

    Killed, the same command goes on. A pretrained model is audited by fine-tuning it: a recipe with tower =
    "pretrained", or --set image.encoder=MODEL --set text.encoder=MODEL over one that has it.

    Args:
        recipe: A recipe: a TOML file, or the name of one that comes with visir.
        bits: Bits of shortcut to train with (repeatable); 0 is one of them.
        seeds: Another seed draws anew. Repeatable. Default: 0.
        out: Where to write: a folder for everything. Default: runs/audit-NAME.
    """
    from visir.errors import require
    from visir.reports.shortcut_audit import audit_report
    from visir.studies.shortcut_audit import BITS, audit
    from visir.training.recipe import read_recipe
    from visir.training.shipped import find_recipe

    require("torch", "safetensors", extra="torch", purpose="training")
    settings = read_recipe(find_recipe(recipe), changes or ())
    folder = out or Path("runs") / f"audit-{settings.name}"
    outcome = audit(settings, out=folder, bits=tuple(bits or BITS), seeds=tuple(seeds or (0,)), jobs=jobs)
    report = audit_report(outcome)
    page = report.write(folder / "audit.html", command=command_line())
    output.table(report.table)
    output.facts(page=page)
    output.note(f"page: {page}")


app = group(
    "shortcuts",
    "Synthetic shortcuts: look at them, audit a training.",
    {"preview": preview_command, "audit": audit_command},
)


# `visir sparsify`: a head that says dense vectors in weighted words, trained over stored vectors.


@calls(
    "visir.sparse.run:sparsify",
    recipe=option(default=None),
    set=option(to="changes"),
    leave="out rate resume report",
)
@examples("visir sparsify --data captions.csv --model openai/clip-vit-base-patch32")
def sparsify(
    call: Call,
    out: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    show: bool = False,
) -> None:
    """Train a head that says vectors in weighted words.

    Train a head that says the vectors of any encoder in weighted words; no vector is computed twice.

    The folder that comes out is a model: give it to `visir search`, `visir index`, `visir evaluate`,
    `visir explain-vector` or `visir.load`. FOLDER?expansion=none uses it without expansion of captions.

    Args:
        variant: Expansion of captions: none, free, caption, caption+word.
        eta: η, the weight of sparsity: 1e-5 (many terms) to 1e-2 (few).
        out: Where to write: the folder of the model. Default: runs/NAME-seedSEED.
    """
    options = dict(call.given)
    recipe, data, changes = (options.pop(name) for name in ("recipe", "data", "set"))
    if show:
        print_recipes("sparsify", recipe)
        return
    from visir.errors import require

    require("torch", "safetensors", "tokenizers", extra="sparse", purpose="sparse heads")
    from visir.sparse.run import SPARSE
    from visir.training.checkpoint import default_folder

    resolved, collection = SPARSE.resolve(recipe or "sparse", data, options, more=changes)
    folder = out or default_folder(resolved)
    if dry_run:
        _print_plan(resolved, collection, folder)
    else:
        _train(resolved, folder, resume)


def _train(recipe: SparseRecipe, out: Path, resume: bool) -> None:
    from visir.cli.train import EpochLines, print_epochs
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
    from visir.cli.train import print_steps
    from visir.encoders.store import check_there, reads_pictures
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


# What the verbs search with: a picture, or texts from a file.


def picture_vector(encoder: Encoder, path: Path) -> Vectors:
    """The vector of a picture that is searched with, under the id "query"."""
    from visir.collections.images import decode
    from visir.files import open_binary

    with open_binary(path) as stream:
        image = decode(stream.read(), str(path))
    return encoder.encode_inputs("image", {"query": image})


def read_queries(path: Path) -> dict[str, str]:
    """{id: text} from a file of lines "id, tab, text" (plain, .gz, .xz). Faults name their lines, all at once."""
    from visir.errors import ConfigurationError, raise_faults
    from visir.files import read_lines

    texts: dict[str, str] = {}
    faults = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        name, tab, text = line.partition("\t")
        if not tab or not name.strip() or not text.strip():
            faults.append(f"line {number}: {line[:60]!r} is not an id, a tab, and a text")
        elif name.strip() in texts:
            faults.append(f"line {number}: the id {name.strip()!r} is there already")
        else:
            texts[name.strip()] = text.strip()
    if not texts and not faults:
        faults.append("there is no query")
    raise_faults(ConfigurationError, str(path), faults, hint="one query a line: q1<TAB>a dog on a beach")
    return texts


# `visir merge`: adapters become part of the weights of their base.


@examples("visir merge runs/mine --out runs/mine-merged")
def merge(model: Annotated[Path, argument("MODEL")], out: Path) -> None:
    """Write a model of its own: the adapters of MODEL, added to the weights of their base.

    It gives the same vectors, and needs neither the base nor peft. MODEL stays as it is.

    Args:
        model: A folder of visir train with adapters.
    """
    from visir.encoders.models.towers import merge_checkpoint

    folder = merge_checkpoint(model, out)
    output.facts(model=model, out=folder)
    output.line(f"{folder}: stands by itself")


# `visir truncation`: what it costs that a model does not read the end of long captions.


@calls(
    "visir.evaluation.truncation_cost:truncation",
    source=option(to="collection"),
    measures=option(to="measure"),
    evaluate=option(to="count_only", default=False),
    also="batch_size",
)
@examples(
    "visir truncation docci/ --model openai/clip-vit-base-patch32 --split test",
    "visir truncation captions.csv --model all-MiniLM-L6-v2 --count-only",
)
@reports
def truncation(call: Call, out: Path | None = None, replace: bool = False) -> None:
    """Say what truncation costs.

    Say how many captions are longer than the model reads, what share of their words is lost, and how often cut and
    whole captions find their image, with intervals, and by length.

    Args:
        count_only: Count tokens and words; encode and search nothing.
        out: Where to write: a new folder for the page, the tables and what visir report reads.
    """
    from visir.reports.by_label import truncation_tables
    from visir.reports.report import REPORT, StudyReport
    from visir.storage import check_new_folder

    if out is not None:
        check_new_folder(out, REPORT, replace=replace)
    outcome = call(evaluate=not call.given["evaluate"])
    parts = {"by_truncation": outcome.by_truncation, "by_length": outcome.by_length, "differences": outcome.differences}
    rows = {name: part.to_arrow().to_pylist() for name, part in parts.items() if part is not None}
    report = StudyReport.of_parts("truncation", f"What truncation costs {outcome.system}", truncation_tables(outcome))
    output.finish(report, {**outcome.to_arrow().to_pylist()[0], **rows}, out)


# Which terms matched, beside the answers that a terminal shows.


def matched_terms(
    query_vectors: Vectors,
    documents: Vectors,
    answers: Sequence[tuple[str, float]],
) -> dict[str, str]:
    """{document: its matched terms with what each gave}; empty for dense vectors, which have no terms."""
    from visir.records import SparseEmbeddings
    from visir.sparse.top_terms import in_words, matched

    if not isinstance(query_vectors, SparseEmbeddings) or not isinstance(documents, SparseEmbeddings):
        return {}
    query = str(query_vectors.ids[0])
    return {document: in_words(matched(query_vectors, query, documents, document)) for document, _ in answers}


# `visir explain-vector`: what a sparse vector of a picture or a text says, in words.

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@examples("visir explain-vector photo.jpg 'a dog on a beach' --model runs/sparse")
def explain_vector(
    inputs: Annotated[list[str] | None, argument("[IMAGE|TEXT]…")] = None,
    model: str = "",
    data: str | None = None,
    split: str | None = None,
    images: list[str] | None = None,
    count: int = 10,
    terms: Annotated[int, option(min=1)] = 20,
    out: Path | None = None,
    device: str | None = None,
) -> None:
    """Print the words that a sparse vector stands for.

    Print the heaviest words of vectors, with their weights; several at once as a sheet of pictures with their
    words.

    A dot marks words that a text has itself. With --data and no inputs, ten of its images with their captions.

    Args:
        inputs: Picture files, texts, or ids of the collection.
        data: A collection: where ids are looked up.
        terms: How many words of each vector.
        out: Where to write: a sheet with the pictures, page.html.
    """
    from visir.errors import ConfigurationError, raise_faults, require
    from visir.reports.page import check_page
    from visir.reports.words import NO_SHEET, write_word_sheet

    faults = [] if model else ["no checkpoint is named (--model)"]
    if not inputs and data is None:
        faults.append("nothing to explain: name pictures or texts, or a --data COLLECTION")
    hint = 'visir explain-vector photo.jpg "a dog on a beach" --model runs/sparse'
    raise_faults(ConfigurationError, "explain-vector", faults, hint=hint)
    if out is not None:
        check_page(out, NO_SHEET)
    require("torch", "tokenizers", extra="sparse", purpose="sparse vectors")
    from visir.sparse.explaining import sparse_encoder, words
    from visir.sparse.top_terms import top_terms_of_sample

    encoder = sparse_encoder(model, device)
    opened = None
    if data is not None:
        from visir.collections import open_collection

        where = images[0] if images and len(images) == 1 else images
        opened = open_collection(data, images=where, split=split)
    if inputs:
        cards = words(encoder, inputs, terms, source=opened)
    else:
        assert opened is not None
        cards = top_terms_of_sample(encoder, opened, count, terms)
    output.answer([_as_json(card) for card in cards])
    for card in cards:
        _show(card)
    if out is not None:
        title = f"Words of {opened.name}" if opened is not None else "Vectors in words"
        expansion = "captions expanded" if encoder.expanded else "captions not expanded"
        write_word_sheet(out, cards, title=title, subtitle=f"{encoder.card.name} · {expansion} · top {terms}")
        output.line(f"sheet: {out}")


def _as_json(card: TopTerms) -> dict[str, Any]:
    listed = [{"word": term, "weight": weight, "own": term in card.own} for term, weight in card.terms]
    return {"title": card.title, "words": listed, "caption": None if card.caption is None else _as_json(card.caption)}


def _show(card: TopTerms) -> None:
    """A table of words with bars, the heaviest as long as `_BAR`; below a picture its caption's."""
    from rich.markup import escape
    from rich.table import Table

    heading = escape(" ".join(card.title.split()))
    if not card.terms:
        output.console_of_verb().print(f"[bold]{heading}[/bold]\n  no words\n")
    else:
        table = Table(title=heading, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(justify="right", width=2)
        table.add_column(min_width=14)
        table.add_column(justify="right")
        table.add_column()
        for term, weight in card.terms:
            table.add_row(
                "•" if term in card.own else "", escape(term), f"{weight:.2f}", _bar(weight / card.terms[0][1])
            )
        output.console_of_verb().print(table)
    if card.caption is not None:
        _show(card.caption)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
