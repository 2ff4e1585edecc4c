"""`visir products evaluate`: baselines and trained models in the three settings of the thesis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from visir.cli import output
from visir.cli.options import argument, option, options_of, single_or_all
from visir.cli.verbs import Call, calls, reports

if TYPE_CHECKING:
    from visir.records.catalogue import Catalogue


# The catalogue on the command line: where it is and how it is read, the same for every verb.

SOURCE = argument("CATALOGUE", about="A file or folder in any known layout, or generated:2000.")


def opened(source: str, format: str | None, images: list[str] | None, options: list[str] | None) -> Catalogue:
    """The catalogue that was named."""
    from visir.products.opening import open_catalogue

    return open_catalogue(source, format=format, images=single_or_all(images), **options_of(options))


@calls(
    "visir.products.evaluation:evaluate",
    catalogue=SOURCE,
    fold=option(kind=list[int], min=1),
    split_seed=option(min=0),
    settings=option("--setting", "-s", to="setting", default=None),
    by=option("--categories-by"),
    leave="systems splits measures depth",
)
@reports
def evaluate(
    call: Call,
    models: Annotated[list[Path] | None, option("--model", "-m")] = None,
    baselines: Annotated[str, option("--baselines", "-b")] = "bm25,bm25:plain",
    show: Annotated[str | None, option()] = None,
    out: Path | None = None,
    replace: bool = False,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
) -> None:
    """Search the test products of each fold with categories' names, and measure: P@k, mAP@k, R-precision.

    Systems are baselines and trained models; a model is tested on the fold that it was not trained on.

    Args:
        fold: The test fold, from 1. Repeatable. Default: every one.
        setting: A setting: all, general or specific. Repeatable. Default: all three.
        models: A model: a folder that visir products train made. Repeatable.
        baselines: Separated by commas: bm25, bm25:plain, text:NAME, clip:NAME; '' for none.
        show: Whose answers the report shows. Default: the best R-precision.
        out: Where to write: a folder for numbers, answers and the report.
    """
    from visir.errors import ConfigurationError
    from visir.products.evaluation import CATEGORIES_RESULT
    from visir.products.reports.categories import categories_report
    from visir.products.task import SETTINGS
    from visir.storage import check_new_folder

    names = [name.strip() for name in baselines.split(",") if name.strip()]
    if not names and not models:
        raise ConfigurationError("no system is named.", hint="name --model, --baselines, or both")
    if out is not None:
        check_new_folder(out, CATEGORIES_RESULT, replace=replace)
    evaluation = call(
        catalogue=opened(call.given["catalogue"], format, images, option),
        systems=[*names, *(models or [])],
        settings=call.given["settings"] or SETTINGS,
    )
    output.finish(categories_report(evaluation, system=show), None, out)


# `visir products judgements`: the clicks of a search log become judgements, corrected for position.

_COLUMNS = "Columns"


@calls(
    "visir.products.clicks:click_judgements",
    log=argument("LOG", kind=Path),
    correction=option("--position-bias"),
    min_impressions=option(min=1),
    min_clicks=option(min=1),
    levels=option(min=1),
    leave="floor",
)
def judgements(
    call: Call,
    out: Path | None = None,
    query: Annotated[str | None, option("--query-column", panel=_COLUMNS)] = None,
    product: Annotated[str | None, option("--product-column", panel=_COLUMNS)] = None,
    position: Annotated[str | None, option("--position-column", panel=_COLUMNS)] = None,
    clicked: Annotated[str | None, option("--clicked-column", panel=_COLUMNS)] = None,
    visitor: Annotated[str | None, option("--visitor-column", panel=_COLUMNS)] = None,
) -> None:
    """Turn the clicks of a search log into judgements for visir evaluate, corrected for position.

    Products at the top are looked at more, so they are clicked more.

    Args:
        log: A table, one row for every product that was shown: query, product, position, clicked.
        correction: How likely each position is looked at: em (estimated), none (all alike), or numbers: 1,0.6,0.4.
        out: Where to write: a new table of judgements: .csv, .tsv, .jsonl or .parquet.
        query: The column of the query.
        product: The column of the product's id.
        position: The column of the position.
        clicked: The column of clicks, or of purchases.
        visitor: The column of the visitor.
    """
    from visir.errors import ConfigurationError
    from visir.products.clicks import judgements_table, read_click_log
    from visir.products.opening import check_new_table

    if out is not None:
        check_new_table(out)
    correction = call.given["correction"]
    how: str | dict[int, float] = correction
    if correction not in ("em", "none"):
        try:
            how = {place: float(part) for place, part in enumerate(correction.split(","), 1)}
        except ValueError:
            raise ConfigurationError(
                f"unknown position bias {correction!r}", hint="em, none, or one number for each position: 1,0.6,0.4"
            ) from None
    columns = {"query": query, "product": product, "position": position, "clicked": clicked, "visitor": visitor}
    judged = call(log=read_click_log(call.given["log"], **columns), correction=how)
    if out is not None:
        judged.save(out)
    output.table(judgements_table(judged))
    if out is not None:
        output.note(f"judgements: {out}")


# `visir products landing`: a page of ranked products for categories, with products of other categories.


@calls(
    "visir.products.landing:landing_page",
    catalogue=SOURCE,
    categories=argument("CATEGORY…", kind=list[str]),
    system=option("--model", "-m", to="model", kind=list[str], default=None),
    related=option(min=0),
    leave="text store",
)
def landing(
    call: Call,
    html: Path | None = None,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
) -> None:
    """Choose the products of a category's landing page, and products of other categories that fit its name.

    Args:
        model: A model: bm25f (words; the default), a trained model's folder, bm25, text:NAME, clip:NAME. Repeatable:
            the answers are fused.
        html: Write the answer as a page of pictures.
    """
    from visir.products.reports.landing import table as landing_table
    from visir.products.reports.landing import write_landing_page

    catalogue = opened(call.given["catalogue"], format, images, option)
    chosen = call(catalogue=catalogue, system=call.given["system"] or "bm25f")
    if html is not None:
        write_landing_page(html, chosen, command=shlex.join(["visir", *sys.argv[1:]]))
    output.table(landing_table(chosen))
    if html is not None:
        output.line(f"page: {html}")
