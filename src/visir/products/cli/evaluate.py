"""`visir products evaluate`: baselines and trained models in the three settings of the thesis."""

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
    FoldsOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
    SeedOption,
    options_of,
    out_option,
    single_or_all,
)

if TYPE_CHECKING:
    from visir.products.clicks import ClickJudgements
    from visir.products.landing import Relatives
    from visir.records.catalogue import Catalogue


# The catalogue on the command line: where it is and how it is read, the same for every verb.

Source = Annotated[
    str,
    typer.Argument(
        metavar="CATALOGUE", help="A file or folder in any known layout, or generated:2000.", show_default=False
    ),
]


def opened(source: str, format: str | None, images: list[str] | None, options: list[str] | None) -> Catalogue:
    """The catalogue that was named."""
    from visir.products.opening import open_catalogue

    return open_catalogue(source, format=format, images=single_or_all(images), **options_of(options))


def evaluate(
    catalogue: Source,
    models: Annotated[
        list[Path] | None,
        typer.Option("--model", "-m", help="A model: a folder that visir products train made. Repeatable."),
    ] = None,
    baselines: Annotated[
        str,
        typer.Option(
            "--baselines", "-b", help="Separated by commas: bm25, bm25:plain, text:NAME, clip:NAME; '' for none."
        ),
    ] = "bm25,bm25:plain",
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", help="A setting: all, general or specific. Repeatable. Default: all three."),
    ] = None,
    folds: FoldsOption = 5,
    fold: Annotated[
        list[int] | None, typer.Option(min=1, help="The test fold, from 1. Repeatable. Default: every one.")
    ] = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Another seed cuts other folds.")] = 0,
    seed: SeedOption = 0,
    by: Annotated[
        str, typer.Option("--categories-by", help="What makes a category: its id (a place in the tree), or its name.")
    ] = "id",
    relevance: Annotated[
        str,
        typer.Option(
            help="What counts as right: path, every category on a product's path; drawn, one drawn category only."
        ),
    ] = "path",
    every_setting: Annotated[
        bool, typer.Option("--every-setting", help="Ask models in all settings, not only in that of their training.")
    ] = False,
    show: Annotated[
        str | None, typer.Option(help="Whose answers the report shows. Default: the best R-precision.")
    ] = None,
    out: Annotated[Path | None, out_option("a folder for numbers, answers and the report")] = None,
    format: FormatOption = None,
    images: ImagesOption = None,
    option: FormatOptionsOption = None,
    device: DeviceOption = None,
) -> None:
    """Search the test products of each fold with categories' names, and measure: P@k, mAP@k, R-precision.

    Systems are baselines and trained models; a model is tested on the fold that it was not trained on.
    """
    from visir.errors import ConfigurationError
    from visir.products.evaluation import CATEGORIES_RESULT, FILES, first_answers, write_result
    from visir.products.evaluation import evaluate as run
    from visir.products.reports.evaluation import differences_table, errors_table, seen_table, settings_table
    from visir.products.task import SETTINGS

    names = [name.strip() for name in baselines.split(",") if name.strip()]
    if not names and not models:
        raise ConfigurationError("no system is named.", hint="name --model, --baselines, or both")
    evaluation = run(
        opened(catalogue, format, images, option),
        [*names, *(models or [])],
        folds=folds,
        fold=fold,
        split_seed=split_seed,
        every_setting=every_setting,
        device=device,
        settings=setting or SETTINGS,  # type: ignore[arg-type]  # checked by `evaluate`
        by=by,  # type: ignore[arg-type]
        relevance=relevance,  # type: ignore[arg-type]
        seed=seed,
    )
    if out is not None:  # before anything is printed: whoever pipes the tables into `head` loses nothing
        from visir.products.reports.categories import write_categories_report
        from visir.storage import new_folder

        command = shlex.join(["visir", *sys.argv[1:]])
        with new_folder(out, CATEGORIES_RESULT, replace=True) as change:
            write_result(change, evaluation)
            write_categories_report(change.file("report.html"), evaluation, system=show, command=command, beside=FILES)
    for name in evaluation.settings:
        output.table(settings_table(evaluation, name))
    if len(evaluation.systems) > 1:
        output.table(differences_table(evaluation))
    output.table(seen_table(evaluation, ("precision@1", "precision@10", "rprecision")))
    errors = {key: first_answers(trials) for key, trials in evaluation.trials.items()}
    output.table(errors_table(errors))
    if out is not None:
        output.note(f"report: {out / 'report.html'}")


# `visir products judgements`: the clicks of a search log become judgements, corrected for position.

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
    from visir.products.clicks import click_judgements, read_click_log
    from visir.products.opening import check_new_table

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
    from visir.products.clicks import judgements_table

    output.table(judgements_table(judged))


# `visir products landing`: a page of ranked products for categories, with products of other categories.


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
    from visir.products.reports.landing import table as landing_table
    from visir.products.reports.landing import write_landing_page

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
