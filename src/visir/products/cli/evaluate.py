"""`visir products evaluate`: baselines and trained models in the three settings of the thesis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from visir.cli.data import Images
from visir.products.cli.source import WIDTH, FormatName, Options, Source, opened


def evaluate(
    catalogue: Source,
    models: Annotated[
        list[Path] | None,
        typer.Option("--models", "-m", help="A folder that visir products train made (repeatable)."),
    ] = None,
    baselines: Annotated[
        str, typer.Option("--baselines", "-b", help="Separated by commas: bm25, text:NAME, clip:NAME; '' for none.")
    ] = "bm25",
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", help="all, general or specific (repeatable). Default: all three."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Into how many folds the products are cut.")] = 5,
    fold: Annotated[
        list[int] | None, typer.Option(min=1, help="Test this fold only, from 1 (repeatable). Default: every one.")
    ] = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Another seed cuts other folds.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the categories that are drawn for products.")] = 0,
    by: Annotated[str, typer.Option(help="Tell categories apart by id (place in the tree) or by name.")] = "id",
    relevance: Annotated[
        str, typer.Option(help="path: right for every category on its path; drawn: for one drawn category only.")
    ] = "path",
    every_setting: Annotated[
        bool, typer.Option("--every-setting", help="Ask models in all settings, not only in that of their training.")
    ] = False,
    show: Annotated[
        str | None, typer.Option(help="Whose answers the report shows. Default: the best R-precision.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where numbers, answers and the report go.")] = None,
    format: FormatName = None,
    images: Images = None,
    option: Options = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")] = None,
) -> None:
    """Search the test products of each fold with categories' names, and measure: P@k, mAP@k, R-precision.

    Systems are baselines and trained models; a model is tested on the fold that it was not trained on.
    """
    from visir.console import Console
    from visir.errors import ConfigurationError
    from visir.products.evaluation import evaluate as run
    from visir.products.first_answers import first_answers
    from visir.products.relevance import SETTINGS
    from visir.products.reports.tables import differences_table, errors_table, seen_table, settings_table
    from visir.products.results import CATEGORIES_RESULT, FILES, write_result
    from visir.reports.formats import to_terminal

    names = [name.strip() for name in baselines.split(",") if name.strip()]
    if not names and not models:
        raise ConfigurationError("no system: name --models, --baselines, or both")
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
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    for name in evaluation.settings:
        console.print(to_terminal(settings_table(evaluation, name)))
    if len(evaluation.systems) > 1:
        console.print(to_terminal(differences_table(evaluation)))
    console.print(to_terminal(seen_table(evaluation, ("precision@1", "precision@10", "rprecision"))))
    errors = {key: first_answers(trials) for key, trials in evaluation.trials.items()}
    console.print(to_terminal(errors_table(errors)))
    if out is not None:
        console.print(f"report: {out / 'report.html'}", soft_wrap=True, highlight=False)
