"""`visir sessions predict`: the prediction study of thesis section 6.5."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    FoldsOption,
    JobsOption,
    out_option,
)
from visir.sessions.cli.samples import CountedPages, DwellTimes, MinPages, Seed, SettingFrom, SettingsOption


def predict(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, out_option("the study's folder; an interrupted study goes on in it", show_default=False)],
    settings: SettingsOption = None,
    anonymous: Annotated[int | None, typer.Option(min=1, help="So many anonymous sessions. The thesis: 22982.")] = None,
    identified: Annotated[
        int | None, typer.Option(min=1, help="So many identified sessions. The thesis: 6319.")
    ] = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option("--classifier", help="A classifier: rf, lr, knn, svm, mlp, gbdt. Repeatable. Default: all."),
    ] = None,
    folds: FoldsOption = 10,
    schemes: Annotated[
        list[str] | None, typer.Option("--folds-by", help="grouped, temporal, ungrouped (repeatable). Default: all.")
    ] = None,
    min_pages: MinPages = 12,
    counted_pages: CountedPages = "before order",
    setting_from: SettingFrom = "start",
    dwell_times: DwellTimes = "left pages",
    seed: Seed = 0,
    jobs: JobsOption = None,
) -> None:
    """Compare models and feature sets at every step of a session; then look at it: visir sessions report."""
    from visir.sessions.examples import SETTINGS
    from visir.sessions.prediction.folds import SCHEMES
    from visir.sessions.prediction.models import MODELS
    from visir.sessions.prediction.predicting import predict as run
    from visir.sessions.prediction.purchase_use import PurchaseUse
    from visir.sessions.reports.intent import f1_table

    chosen = settings or SETTINGS
    sizes = {"anonymous": anonymous, "identified": identified}
    summary = run(
        sessions,
        out,
        settings=chosen,  # type: ignore[arg-type]  # checked by `Sample`
        n={setting: size for setting, size in sizes.items() if size is not None},  # type: ignore[misc]
        models=classifier or MODELS,
        folds=folds,
        schemes=schemes or SCHEMES,  # type: ignore[arg-type]  # checked by `StudyPlan`
        min_pages=min_pages,
        counted_pages=counted_pages,  # type: ignore[arg-type]  # checked by `Sample`
        setting_from=setting_from,  # type: ignore[arg-type]  # likewise
        dwell_times=dwell_times,  # type: ignore[arg-type]  # likewise
        seed=seed,
        jobs=jobs,
    )
    output.answer(summary.to_json())
    for setting in chosen:
        output.table(f1_table(summary, setting))
    output.line(PurchaseUse.of(summary.card["purchases"]).sentence)
    output.line(f"{out}: study.json, cells ({summary.seconds:,.0f} s of processor time)")
    output.note(f"look at it: visir sessions report {out} --out {out}.html")
