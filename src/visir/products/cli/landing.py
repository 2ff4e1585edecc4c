"""`visir products landing`: a page of ranked products for categories, with products of other categories."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from visir.cli import output
from visir.cli.options import CountOption, DeviceOption, FormatOption, FormatOptionsOption, ImagesOption
from visir.products.cli.source import Source, opened

if TYPE_CHECKING:
    from visir.products.landing import Relatives


def landing(
    catalogue: Source,
    categories: Annotated[list[str], typer.Argument(metavar="CATEGORY…", help="Names or ids of categories.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model: bm25f (words; the default), a trained model's folder, bm25, text:NAME, clip:NAME. "
            "Repeatable: the answers are fused.",
            show_default=False,
        ),
    ] = None,
    k: CountOption = 12,
    related: Annotated[
        int, typer.Option(min=0, help="How many products of other categories are shown for each category.")
    ] = 6,
    relatives: Annotated[
        str,
        typer.Option(help="Which categories are too near for those: path, siblings (below one parent) or tree."),
    ] = "siblings",
    diverse: Annotated[bool, typer.Option("--diverse", help="Let the categories below take turns.")] = False,
    price: Annotated[
        str | None, typer.Option(help="The attribute that is the price. Default: one with a usual name.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the answer as a page of pictures.")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    device: DeviceOption = None,
) -> None:
    """Choose the products of a category's landing page, and products of other categories that fit its name."""
    from visir.products.landing import landing_page
    from visir.products.reports.landing import landing_table, write_landing_page

    chosen = landing_page(
        opened(catalogue, format, images, option),
        categories,
        model or "bm25f",
        k,
        related=related,
        relatives=cast("Relatives", relatives),
        diverse=diverse,
        price=price,
        device=device,
    )
    if html is not None:
        write_landing_page(html, chosen, command=shlex.join(["visir", *sys.argv[1:]]))
    output.table(landing_table(chosen))
    if html is not None:
        output.line(f"page: {html}")
