"""`visir sessions`: from a shop's raw log to its sessions, and to a prediction of purchase. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.sessions.cli.ab_test import ab_test
from visir.sessions.cli.describe import describe
from visir.sessions.cli.generate import generate
from visir.sessions.cli.make import make
from visir.sessions.cli.predict import predict
from visir.sessions.cli.report import report
from visir.sessions.cli.score import score
from visir.sessions.cli.serve import serve
from visir.sessions.cli.token import app as token
from visir.sessions.cli.train import train

app = group(
    "sessions",
    "Shop logs: sessions, and who will buy.",
    {
        "generate": generate,
        "make": make,
        "describe": describe,
        "predict": predict,
        "train": train,
        "score": score,
        "serve": serve,
        "report": report,
        "ab-test": ab_test,
    },
)
app.add_typer(token, name="token")
