"""`visir intent`: from a shop's raw log to its sessions, and to a prediction of purchase. One file per verb."""

from __future__ import annotations

import typer

from visir.sessions.cli.describe import describe
from visir.sessions.cli.generate import generate
from visir.sessions.cli.predict import predict
from visir.sessions.cli.report import report
from visir.sessions.cli.score import score
from visir.sessions.cli.sessions import sessions
from visir.sessions.cli.train import train

app = typer.Typer(
    name="intent",
    help="Purchase intent: sessions of a shop's log, what distinguishes those that buy, and predicting it early.",
    no_args_is_help=True,
)


@app.callback()
def _root() -> None:
    """Purchase intent: sessions of a shop's log, what distinguishes those that buy, and predicting it early."""


# In the order of the work: this is the order of `visir intent --help`.
for verb in (generate, sessions, describe, predict, train, score, report):
    app.command()(verb)
