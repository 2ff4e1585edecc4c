"""`visir explain-vector`: what a sparse vector of a picture or a text says, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import (
    DeviceOption,
    ExamplesOption,
    ImagesOption,
    ModelOption,
    SplitOption,
    out_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.sparse.top_terms import TopTerms

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@examples(
    "visir explain-vector photo.jpg 'a dog on a beach' --model runs/sparse",
)
def explain_vector(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[IMAGE|TEXT]…", help="Picture files, texts, or ids of the collection.", show_default=False
        ),
    ] = None,
    model: ModelOption = "",
    data: Annotated[
        str | None, typer.Option("--data", metavar="COLLECTION", help="A collection: where ids are looked up.")
    ] = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    count: ExamplesOption = 10,
    terms: Annotated[int, typer.Option("--terms", min=1, help="How many words of each vector.")] = 20,
    out: Annotated[Path | None, out_option("a sheet with the pictures, page.html")] = None,
    device: DeviceOption = None,
) -> None:
    """Print the words that a sparse vector stands for.

    Print the heaviest words of vectors, with their weights; several at once as a sheet of pictures with their
    words.

    A dot marks words that a text has itself. With --data and no inputs, ten of its images with their captions.
    """
    from visir.errors import ConfigurationError, raise_faults, require
    from visir.reports.word_sheet import check_suffix, write_word_sheet

    faults = [] if model else ["no checkpoint is named (--model)"]
    if not inputs and data is None:
        faults.append("nothing to explain: name pictures or texts, or a --data COLLECTION")
    hint = 'visir explain-vector photo.jpg "a dog on a beach" --model runs/sparse'
    raise_faults(ConfigurationError, "explain-vector", faults, hint=hint)
    if out is not None:
        check_suffix(out)
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
