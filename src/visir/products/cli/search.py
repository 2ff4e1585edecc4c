"""`visir products search`: search a catalogue by any words."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from visir.cli import output
from visir.cli.options import (
    CountOption,
    DeviceOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
)
from visir.products.cli.source import Source, opened

if TYPE_CHECKING:
    from visir.products.free_search import ProductAnswer
    from visir.retrieval.fusion import Fusion

_TEXT = "Words and fusion"


def search(
    catalogue: Source,
    query: Annotated[str, typer.Argument(metavar="TEXT", help="The name of a category, or any words.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model: bm25f (words in titles, categories and attributes; the default), a trained model's folder, "
            "bm25, bm25:plain, text:NAME, clip:NAME. Repeatable: the answers are fused.",
            show_default=False,
        ),
    ] = None,
    k: CountOption = 10,
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
    fusion: Annotated[
        str, typer.Option(help="How several systems are joined: rrf or weighted.", rich_help_panel=_TEXT)
    ] = "rrf",
    weight: Annotated[
        list[float] | None,
        typer.Option(
            "--model-weight", help="The weight of each model in the fusion, in their order.", rich_help_panel=_TEXT
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the answer as a page of pictures.")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    device: DeviceOption = None,
) -> None:
    """Find products by any words: ranked, with scores and the categories they belong to.

    Misspelt words are corrected, and the answer says so. When the words are the name of a category, answers that belong
    to it are marked.
    """
    from visir.products.free_search import search as run
    from visir.products.text_search import TextOptions

    products = opened(catalogue, format, images, option)
    answer = run(
        products,
        query,
        model or "bm25f",
        k,
        text=TextOptions(language, spelling, synonyms, near_words),
        fusion=cast("Fusion", fusion),
        weights=weight,
        device=device,
    )
    if html is not None:
        from visir.products.reports.search import write_search_page

        write_search_page(html, answer, command=shlex.join(["visir", *sys.argv[1:]]))
    _show(answer)
    if html is not None:
        output.line(f"page: {html}")


def _show(answer: ProductAnswer) -> None:
    from visir.products.reports.search import answer_table

    output.table(answer_table(answer))
