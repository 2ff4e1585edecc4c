"""`visir sessions score`: a saved purchase model over a stream of events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from visir.cli.verbs import streams

if TYPE_CHECKING:
    from visir.sessions.prediction.live import LiveScorer


@streams
def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by visir sessions train.")],
    history: Annotated[
        Path | None, typer.Option(help="A folder of sessions: what customers did before the stream begins.")
    ] = None,
) -> None:
    """Answer a stream of events: JSON lines, or CSV with a head.

    Columns are as in docs/reference/session-logs.md, times in µs.

    One JSON line per answer, at once: when a session begins (step 0), then whenever a page opens, up to the model's
    last step or the first order. Rejected events are counted at the end on standard error.
    """
    from dataclasses import asdict

    import orjson

    from visir.sessions.prediction.live import LiveScorer
    from visir.sessions.prediction.purchase_model import load_model

    live = LiveScorer(load_model(model))
    if history is not None:
        live.remember_sessions(history)
    for event in _events(sys.stdin, live):
        for answer in live.observe(event):
            typer.echo(orjson.dumps(asdict(answer)).decode())
        sys.stdout.flush()
    for reason, count in sorted(live.rejected.items()):
        typer.echo(f"rejected: {count:,} {reason}", err=True)


def _events(stream: TextIO, live: LiveScorer) -> Iterator[dict[str, Any]]:
    """The rows of a stream. A line that is not a row is reported with its number, counted, and left out."""
    import csv

    import orjson

    from visir.sessions.prediction.live import check_columns

    head: list[str] | None = None
    is_json: bool | None = None  # by the first line
    for number, line in enumerate(stream, 1):
        text = line.strip().removeprefix("\ufeff")
        if not text:
            continue
        if is_json is None:
            is_json = text.startswith("{")
        if not is_json and head is None:
            head = next(csv.reader([text]))
            check_columns(head)
            continue
        try:
            if head is None:
                row = orjson.loads(text)
                if not isinstance(row, dict):
                    raise ValueError("not an object")
                if number == 1:
                    check_columns(list(row))
            else:
                row = dict(zip(head, next(csv.reader([text])), strict=True))
                row["time"] = int(row["time"]) if row.get("time") else None
                row["price"] = float(row["price"]) if row.get("price") else None
        except ValueError as fault:
            live.rejected["malformed"] += 1
            typer.echo(f"line {number}: {fault}", err=True)
            continue
        yield row
