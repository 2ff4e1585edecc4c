"""`visir sessions`: from a shop's raw log to its sessions, and to a prediction of purchase. One file per verb."""

from __future__ import annotations

from visir.cli.verbs import group
from visir.sessions.cli.serve import ab_test, report, score, serve
from visir.sessions.cli.serve import app as token
from visir.sessions.cli.train import describe, generate, make, predict, train

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
        "token": token,
    },
)
