"""`visir sessions report`: a prediction study as one HTML page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    ReplaceOption,
    out_option,
)


def report(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A folder made by visir sessions predict.")],
    out: Annotated[Path, out_option("a page, named .html", show_default=False)],
    replace: ReplaceOption = False,
) -> None:
    """Show a prediction study: Figures 6.6 and 6.7, what more features bring, what folds flatter, and the protocol."""
    from visir.sessions.prediction.study import load_study
    from visir.sessions.prediction.summary import summarise
    from visir.sessions.reports.intent import write_intent_report

    summary = summarise(*load_study(study))
    write_intent_report(out, summary, ["visir", *sys.argv[1:]], replace=replace)
    output.answer(summary.to_json())
    output.line(str(out))
