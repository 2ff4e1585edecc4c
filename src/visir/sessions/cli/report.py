"""`visir sessions report`: a prediction study as one HTML page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def report(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A folder made by visir sessions predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page: an HTML file.", show_default=False)],
    numbers: Annotated[Path | None, typer.Option("--json", help="Write all numbers too: a JSON file.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace files that are there.")] = False,
) -> None:
    """Show a prediction study: Figures 6.6 and 6.7, what more features bring, what folds flatter, and the protocol."""
    from visir.files import json_bytes
    from visir.sessions.prediction.study import load_study
    from visir.sessions.prediction.summary import summarise
    from visir.sessions.reports.intent import write_intent_report
    from visir.storage import check_new_file, write_new

    if numbers is not None:
        check_new_file(numbers, replace=replace)
    summary = summarise(*load_study(study))
    write_intent_report(out, summary, ["visir", *sys.argv[1:]], replace=replace)
    if numbers is not None:
        write_new(numbers, json_bytes(summary.to_json()), replace=replace)
    typer.echo(str(out))
