"""`visir products search`: search a catalogue by any words."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def search(
    catalogue: Source,
    query: Annotated[str, typer.Argument(metavar="TEXT", help="The name of a category, or any words.")],
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="A model: a trained model's folder; or bm25, bm25:plain, text:NAME, clip:NAME."
        ),
    ] = "bm25",
    k: CountOption = 10,
    html: Annotated[Path | None, typer.Option(help="Write the answer as a page of pictures.")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    device: DeviceOption = None,
) -> None:
    """Find products by the name of a category: ranked, with scores and the categories they belong to.

    When the words are the name of a category, answers that belong to it are marked.
    """
    from visir.products.free_search import search as run

    products = opened(catalogue, format, images, option)
    answer = run(products, query, model, k, device=device)
    if html is not None:
        from visir.products.reports.search import write_search_page

        write_search_page(html, answer, command=shlex.join(["visir", *sys.argv[1:]]))
    _show(answer)
    if html is not None:
        output.line(f"page: {html}")


def _show(answer: ProductAnswer) -> None:
    from visir.products.reports.search import answer_table

    output.table(answer_table(answer))
