"""`visir library token`: who may search, and who may change."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli.tokens import Days, Folder, Name, make_token, token_group


def new(
    folder: Folder,
    name: Name,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="What is allowed: search or admin. Repeatable. Default: search.")
    ] = None,
    days: Days = None,
) -> None:
    """Make a token and show it, this once; the folder holds its hash only. Default scope: search."""
    make_token(folder, name, scope or ["search"], days)


app = token_group("visir library serve", "who may search, and who may change", new)
