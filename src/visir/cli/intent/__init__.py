"""`visir intent`: from a shop's raw log to its sessions, and to a prediction of purchase. One file per verb."""

from __future__ import annotations

import typer

from visir.cli.intent.describe import describe
from visir.cli.intent.generate import generate
from visir.cli.intent.predict import predict
from visir.cli.intent.report import report
from visir.cli.intent.score import score
from visir.cli.intent.sessions import sessions
from visir.cli.intent.train import train

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
