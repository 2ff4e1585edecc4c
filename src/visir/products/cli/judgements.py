"""`visir products judgements`: the clicks of a search log become judgements, corrected for position."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import out_option

if TYPE_CHECKING:
    from visir.products.feedback.judgements import ClickJudgements

_COLUMNS = "Columns"


def judgements(
    log: Annotated[
        Path,
        typer.Argument(help="A table, one row for every product that was shown: query, product, position, clicked."),
    ],
    out: Annotated[Path | None, out_option("a new table of judgements: .csv, .tsv, .jsonl or .parquet")] = None,
    correction: Annotated[
        str,
        typer.Option(
            "--position-bias",
            help="How likely each position is looked at: em (estimated), none (all alike), or numbers: 1,0.6,0.4.",
        ),
    ] = "em",
    min_impressions: Annotated[
        int, typer.Option(min=1, help="How often a product must have been shown for a query.")
    ] = 10,
    min_clicks: Annotated[
        int, typer.Option(min=1, help="How many clicks one product of a query must have at least.")
    ] = 1,
    levels: Annotated[
        int | None, typer.Option(min=1, help="Whole grades from 0 to this. Default: corrected click rates.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query-column", help="The column of the query.", rich_help_panel=_COLUMNS)
    ] = None,
    product: Annotated[
        str | None, typer.Option("--product-column", help="The column of the product's id.", rich_help_panel=_COLUMNS)
    ] = None,
    position: Annotated[
        str | None, typer.Option("--position-column", help="The column of the position.", rich_help_panel=_COLUMNS)
    ] = None,
    clicked: Annotated[
        str | None,
        typer.Option("--clicked-column", help="The column of clicks, or of purchases.", rich_help_panel=_COLUMNS),
    ] = None,
    visitor: Annotated[
        str | None, typer.Option("--visitor-column", help="The column of the visitor.", rich_help_panel=_COLUMNS)
    ] = None,
) -> None:
    """Turn the clicks of a search log into judgements for visir evaluate, corrected for position.

    Products at the top are looked at more, so they are clicked more.
    """
    from visir.errors import ConfigurationError
    from visir.products.feedback.click_log import read_click_log
    from visir.products.feedback.judgements import click_judgements
    from visir.products.new_table import check_new_table

    if out is not None:
        check_new_table(out)
    how: str | dict[int, float] = correction
    if correction not in ("em", "none"):
        try:
            how = {place: float(part) for place, part in enumerate(correction.split(","), 1)}
        except ValueError:
            raise ConfigurationError(
                f"unknown position bias {correction!r}", hint="em, none, or one number for each position: 1,0.6,0.4"
            ) from None
    columns = {"query": query, "product": product, "position": position, "clicked": clicked, "visitor": visitor}
    judged = click_judgements(
        read_click_log(log, **columns),
        how,  # type: ignore[arg-type]  # checked by `click_judgements`
        min_impressions=min_impressions,
        min_clicks=min_clicks,
        levels=levels,
    )
    if out is not None:
        judged.save(out)
    _show(judged)
    if out is not None:
        output.note(f"judgements: {out}")


def _show(judged: ClickJudgements) -> None:
    from visir.products.feedback.table import judgements_table

    output.table(judgements_table(judged))
