"""`visir products evaluate`: baselines and trained models in the three settings of the thesis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from visir.products.split import Split


def evaluate(
    catalogue: Source,
    models: Annotated[
        list[Path] | None,
        typer.Option("--model", "-m", help="A model: a folder that visir products train made. Repeatable."),
    ] = None,
    baselines: Annotated[
        str, typer.Option("--baselines", "-b", help="Separated by commas: bm25, text:NAME, clip:NAME; '' for none.")
    ] = "bm25",
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
    from visir.errors import ConfigurationError, nearest, raise_faults
    from visir.products.evaluation import evaluate as evaluate_systems
    from visir.products.first_answers import first_answers
    from visir.products.relevance import SETTINGS
    from visir.products.reports.tables import differences_table, errors_table, seen_table, settings_table
    from visir.products.results import CATEGORIES_RESULT, FILES, write_result
    from visir.products.split import folds as cut
    from visir.products.systems import CategorySystem
    from visir.products.zero_shot import baseline

    settings = tuple(name for name in SETTINGS if setting is None or name in setting)
    faults = [f"unknown setting {name!r} ({nearest(name, SETTINGS)})" for name in setting or [] if name not in SETTINGS]
    faults += [f"fold {number}: there are {folds}" for number in fold or [] if number > folds]
    names = [name.strip() for name in baselines.split(",") if name.strip()]
    if not names and not models:
        faults.append("no system: name --models, --baselines, or both")
    raise_faults(ConfigurationError, "products evaluate", faults)
    products = opened(catalogue, format, images, option)
    all_splits = cut(products, folds, split_seed)
    splits: list[Split] = [split for number, split in enumerate(all_splits, 1) if not fold or number in fold]
    systems: list[CategorySystem] = [baseline(name, products, device=device) for name in names]
    if models:
        from visir.products.saved_models import trained_systems

        systems += trained_systems(models, products, splits, every_setting=every_setting, device=device)
    evaluation = evaluate_systems(
        products,
        systems,
        splits,
        settings=settings,
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
