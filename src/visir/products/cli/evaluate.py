"""`visir products evaluate`: baselines and trained models in the three settings of the thesis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    DeviceOption,
    FoldsOption,
    FormatOption,
    FormatOptionsOption,
    ImagesOption,
    SeedOption,
    out_option,
)
from visir.products.cli.source import Source, opened


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
    from visir.products.evaluation import evaluate as run
    from visir.products.first_answers import first_answers
    from visir.products.relevance import SETTINGS
    from visir.products.reports.tables import differences_table, errors_table, seen_table, settings_table
    from visir.products.results import CATEGORIES_RESULT, FILES, write_result

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
