"""`visir sessions train`: a purchase model, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    ReplaceOption,
    out_option,
)
from visir.sessions.cli.samples import CountedPages, MinPages, Seed, SettingFrom, SettingsOption


def train(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, out_option("the folder of the model", show_default=False)],
    classifier: Annotated[
        str, typer.Option("--classifier", help="A classifier: rf, lr, knn, svm, mlp or gbdt.")
    ] = "rf",
    features: Annotated[str, typer.Option(help="The feature set: baseline or extended.")] = "extended",
    settings: SettingsOption = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, metavar="N", help="So many sessions per setting. Default: all.")
    ] = None,
    min_pages: MinPages = 12,
    counted_pages: CountedPages = "before order",
    setting_from: SettingFrom = "start",
    seed: Seed = 0,
    replace: ReplaceOption = False,
) -> None:
    """Train one model per setting and step, and save it. With both settings, a customer who logs in changes model."""
    from visir.errors import VisirError
    from visir.sessions.examples import SETTINGS
    from visir.sessions.prediction.purchase_model import train as run

    if out.exists() and not replace:
        raise VisirError(f"{out} exists already.", hint="name a new folder, or replace it (--replace)")
    trained = run(
        sessions,
        classifier,
        settings=settings or SETTINGS,  # type: ignore[arg-type]  # checked by `Sample`
        n=n,
        min_pages=min_pages,
        counted_pages=counted_pages,  # type: ignore[arg-type]  # likewise
        setting_from=setting_from,  # type: ignore[arg-type]  # likewise
        features=features,  # type: ignore[arg-type]  # checked by `train`
        seed=seed,
    )
    trained.save(out, replace=replace)
    output.answer({"model": out.absolute(), **output.plain(trained.card)})
    for setting, drawn in trained.card["drawn"].items():
        rate = trained.card["base_rates"][setting][0]
        output.line(
            f"{setting}: {drawn['sessions']:,} sessions, {drawn['purchases']:,} with a purchase; "
            f"its scores are for all sessions, of which {rate:.2%} buy"
        )
    output.line(f"{out}: ask it: visir sessions score {out} < EVENTS")
