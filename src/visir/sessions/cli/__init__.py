"""`visir sessions`: from a shop's raw log to its sessions, and to a prediction of purchase. One file per verb."""

from __future__ import annotations

import typer

from visir.sessions.cli.describe import describe
from visir.sessions.cli.generate import generate
from visir.sessions.cli.make import make
from visir.sessions.cli.predict import predict
from visir.sessions.cli.report import report
from visir.sessions.cli.score import score
from visir.sessions.cli.train import train

_ABOUT = "Shop logs: sessions, what distinguishes those that buy, and predicting a purchase early."

app = typer.Typer(name="sessions", help=_ABOUT, no_args_is_help=True)


@app.callback(help=_ABOUT)
def _root() -> None:
    """Take a callback, so that one verb alone would still be called by its name."""


# In the order of the work: this is the order of `visir sessions --help`.
for verb in (generate, make, describe, predict, train, score, report):
    app.command()(verb)
