"""`visir products infer`: categories for products that have none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    CountOption,
    DeviceOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
    options_of,
    out_option,
    single_or_all,
)
from visir.products.cli.source import Source


def infer(
    catalogue: Source,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="A model: words (of titles and attributes), text:NAME, clip:NAME, or a trained model's folder.",
        ),
    ] = "words",
    above: Annotated[
        float | None,
        typer.Option(
            help="Answer only with this confidence or more, by the most specific category that reaches it: 0.9.",
            show_default=False,
        ),
    ] = None,
    count: CountOption = 3,
    out: Annotated[Path | None, out_option("a new table with all answers: .csv, .tsv, .jsonl or .parquet")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    device: DeviceOption = None,
) -> None:
    """Infer the categories of products that have none, with a confidence that held-out products calibrate.

    The table that is read is not changed. Each product is compared with the products that have a category.
    """
    from visir.products.inference.infer import infer_categories
    from visir.products.inference.table import write_inferred
    from visir.products.new_table import check_new_table
    from visir.products.opening import open_uncategorised
    from visir.products.reports.inferred_view import shortened

    if out is not None:
        check_new_table(out)
    products, _ = open_uncategorised(catalogue, format=format, images=single_or_all(images), **options_of(option))
    inferred = infer_categories(products, model, above=above, count=count, device=device)
    if out is not None:
        write_inferred(out, inferred)
    output.table(shortened(inferred))
    if out is not None:
        output.note(f"table: {out}")
