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
from visir.cli.verbs import examples
from visir.sessions.cli.samples import Seed, SettingsOption

THESIS = "Protocol of the thesis"


def _of_thesis(name: str, about: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=about, rich_help_panel=THESIS, show_default=False)
    return option


@examples(
    "visir sessions train sessions --out buyers",
    "visir sessions train sessions --out buyers --test-from 2025-03-04",
)
def train(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, out_option("the folder of the model", show_default=False)],
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            help="A classifier: blend (default), lr, gbdt, gru; of the thesis: rf, lr, knn, svm, mlp, gbdt.",
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="live: all sessions at every step. thesis: long sessions, as the study.")
    ] = "live",
    test_from: Annotated[
        str | None,
        typer.Option("--test-from", metavar="DATE", help="Test on sessions from this date or time on (ISO 8601)."),
    ] = None,
    test_share: Annotated[
        float | None, typer.Option("--test-share", help="Test on this share of sessions, the latest. Default: 0.3.")
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="After the test, train again on all sessions.")] = False,
    even_if_worse: Annotated[
        bool, typer.Option("--even-if-worse", help="Save a model too that loses to the base rate or to a plain LR.")
    ] = False,
    n: Annotated[
        int | None, typer.Option("--n", min=1, metavar="N", help="At most so many sessions. Default: all.")
    ] = None,
    settings: SettingsOption = None,
    min_pages: Annotated[int | None, _of_thesis("--min-pages", "Pages a session must have. Default: 12.")] = None,
    counted_pages: Annotated[
        str | None, _of_thesis("--counted-pages", 'Which pages count: "before order" (default) or "all".')
    ] = None,
    setting_from: Annotated[
        str | None, _of_thesis("--setting-from", 'What the setting follows from: "start" (default) or "session".')
    ] = None,
    features: Annotated[
        str | None, _of_thesis("--features", "The feature set: baseline or extended (default).")
    ] = None,
    seed: Seed = 0,
    replace: ReplaceOption = False,
) -> None:
    """Train a model that scores sessions page by page, test it on later sessions, and save it.

    A model that loses to the base rate or to a plain logistic regression is not saved, unless you ask for it.
    """
    from visir.errors import VisirError
    from visir.sessions.prediction.training import train as run
    from visir.sessions.reports.model_view import page_table, reliability_table

    if out.exists() and not replace:
        raise VisirError(f"{out} exists already.", hint="name a new folder, or replace it (--replace)")
    trained = run(
        sessions,
        classifier,
        protocol=protocol,  # type: ignore[arg-type]  # checked by `train`
        test_from=test_from,
        test_share=test_share,
        refit=refit,
        n=n,
        seed=seed,
        settings=settings,  # type: ignore[arg-type]  # checked by `Sample`
        min_pages=min_pages,
        counted_pages=counted_pages,  # type: ignore[arg-type]  # likewise
        setting_from=setting_from,  # type: ignore[arg-type]  # likewise
        features=features,  # type: ignore[arg-type]  # likewise
    )
    if protocol == "live":
        output.table(page_table(trained))
        output.table(reliability_table(trained))
    trained.save(out, replace=replace, even_if_worse=even_if_worse)
    output.answer({"model": out.absolute(), **output.plain(trained.card)})
    for setting, drawn in trained.card["drawn"].items():
        output.line(f"{setting}: {drawn['sessions']:,} sessions, {drawn['purchases']:,} with a purchase")
    if trained.purchases is not None:
        output.line(trained.purchases.sentence)
        if trained.purchases.warning:
            output.note(trained.purchases.warning)
    if protocol == "thesis":
        output.note("its probabilities are for sessions as long as those it learnt from; for a shop: --protocol live")
    if trained.loses_to:
        output.note(f"it loses to {' and '.join(trained.loses_to)} on later sessions")
    output.line(f"{out}: ask it: visir sessions score {out} < EVENTS")
