"""`visir library`: photos made searchable, kept up to date, searched and served. One file per verb."""

from __future__ import annotations

import typer

from visir.library.cli.check import check
from visir.library.cli.duplicates import duplicates
from visir.library.cli.info import info
from visir.library.cli.make import make
from visir.library.cli.serve import serve
from visir.library.cli.token import app as token
from visir.library.cli.update import update, watch

_ABOUT = "Photos: make a folder searchable, keep it up to date, search it, serve it as a page."

app = typer.Typer(name="library", help=_ABOUT, no_args_is_help=True)


@app.callback(help=_ABOUT)
def _root() -> None:
    """Take a callback, so that one verb alone would still be called by its name."""


# In the order of the work: this is the order of `visir library --help`.
for verb in (make, update, watch, serve, info, duplicates, check):
    app.command()(verb)
app.add_typer(token, name="token")
