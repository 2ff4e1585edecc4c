"""`visir intent train`: a purchase model, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.sessions.cli.samples import Count, MinPages, Seed, SettingsOption, Told, samples_of


def train(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A folder of sessions.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the model.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="rf, lr, knn, svm, mlp or gbdt.")] = "rf",
    features: Annotated[str, typer.Option(help="The feature set: baseline or extended.")] = "extended",
    settings: SettingsOption = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="So many sessions per setting. Default: all.")] = None,
    min_pages: MinPages = 12,
    count: Count = "before order",
    told: Told = "start",
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder if it is there.")] = False,
) -> None:
    """Train one model per setting and step, and save it. With both settings, a customer who logs in changes model."""
    from visir.errors import ConfigurationError, VisirError, nearest
    from visir.sessions.examples import SETTINGS
    from visir.sessions.features import FEATURE_SETS
    from visir.sessions.predict.models import MODELS
    from visir.sessions.predict.purchase_model import save_model
    from visir.sessions.predict.purchase_model import train as run

    for name, given, known in (("model", model, MODELS), ("features", features, FEATURE_SETS)):
        if given not in known:
            raise ConfigurationError(f"unknown {name} {given!r}", hint=nearest(given, known))
    if out.exists() and not force:
        raise VisirError(f"{out} exists already.", hint="name a new folder, or replace it (--force)")
    samples = samples_of(settings, dict.fromkeys(SETTINGS, n), min_pages, count, told, seed)
    made = run(sessions, samples, model, which=features, seed=seed)  # type: ignore[arg-type]  # checked above
    save_model(made, out, replace=force)
    for setting, found in made.card["found"].items():
        typer.echo(f"{setting}: {found['sessions']:,} sessions, {found['purchases']:,} with a purchase")
    typer.echo(f"{out}: ask it: visir intent score {out} < EVENTS")
